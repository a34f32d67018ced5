//! Running one command of a setup: on the base's tree, with a home that is kept and a network that leads
//! to package registries alone.

use std::fs;
use std::io;
use std::path::PathBuf;

use bailiwick_verify::job::Ran;

use super::bench::Bench;
use super::slot;
use super::work::Writes;
use crate::environment::{self, Gateway, Registries, SETUP_HOME};
use crate::process::{self, Doorkeeper};
use crate::sandbox::{Bind, Network};
use crate::toolchain::OFFLINE;

/// The port of the gateway inside of the sandbox, where nobody else listens.
const DOOR: u16 = 4118;

/// What a setup is given to fetch packages with.
pub(super) struct WayOut {
    home: PathBuf,
    registries: Registries,
    gateway: Gateway,
}

impl Bench {
    /// What the result of a setup depends on.
    pub(super) fn setup_key(
        &self,
        setup: &[String],
        hosts: &[String],
        files: &[PathBuf],
    ) -> io::Result<String> {
        environment::key(setup, hosts, files, self.tree(), &self.host.stamp())
    }

    /// A fresh home for a setup, and the hosts that it can reach.
    pub(super) fn way_out(&self, hosts: &[String]) -> io::Result<WayOut> {
        let home = self.slot.setup_home();
        slot::remove(&home)?;
        fs::create_dir_all(&home)?;
        let registries = Registries::observe(&self.host, self.tree(), hosts);
        registries.write(&home)?;
        let gateway = Gateway::new(registries.hosts.clone(), &self.host.proxies);
        Ok(WayOut { home, registries, gateway })
    }

    /// Runs a command line of a setup; what it writes to the tree and to its home stays.
    pub(super) fn set_up(&self, line: &str, way: &WayOut) -> Result<Ran, String> {
        let job = self.begin(Writes::Through, Writes::Apart)?;
        let program = self.shell_program(line);
        let mut sandbox = self.sandbox(&job, &program, Network::None);
        sandbox.private.retain(|path| *path != self.places.home);
        sandbox.writable.push(Bind::new(&way.home, &self.places.home));
        sandbox.read_only.extend(way.registries.read_only.iter().cloned());
        sandbox.door = Some(DOOR);
        sandbox.environment.retain(|(name, _)| OFFLINE.iter().all(|(other, _)| name != other));
        sandbox.environment.extend(variables());
        sandbox.environment.extend(way.registries.variables.iter().cloned());
        let keeper: Doorkeeper<'_> = &|listener| Ok(Box::new(way.gateway.open(listener)?));
        let finished = process::run_with_door(
            &self.launcher,
            &sandbox,
            &program.argv,
            program.capture,
            self.limits,
            &self.until,
            Some(keeper),
        )
        .map_err(|error| error.to_string())?;
        Ok(Ran {
            line: line.to_owned(),
            ended: finished.ended,
            tail: String::from_utf8_lossy(&finished.tail).into_owned(),
            took: finished.took,
        })
    }
}

/// How programs find the way out. Java reads no variables of the usual names.
fn variables() -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{DOOR}");
    let mut all: Vec<(String, String)> = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]
        .map(|name| (name.to_owned(), proxy.clone()))
        .to_vec();
    let java: Vec<String> = ["http", "https"]
        .iter()
        .map(|name| format!("-D{name}.proxyHost=127.0.0.1 -D{name}.proxyPort={DOOR}"))
        .collect();
    let others = [
        ("JAVA_TOOL_OPTIONS", java.join(" ")),
        ("CARGO_HOME", format!("{SETUP_HOME}/.cargo")),
        ("npm_config_update_notifier", "false".to_owned()),
        ("npm_config_audit", "false".to_owned()),
        ("npm_config_fund", "false".to_owned()),
    ];
    all.extend(others.map(|(name, value)| (name.to_owned(), value)));
    all
}
