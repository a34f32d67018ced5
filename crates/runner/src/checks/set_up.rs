//! Runs one command of a setup: on the base's tree, with a home that is kept and a network that reaches only package
//! registries.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bailiwick_verify::job::CommandResult;

use super::bench::Bench;
use super::job_error::JobError;
use super::slot;
use super::work::WriteMode;
use crate::environment::{self, BaseTrust, Gateway, Registries};
use crate::process::{self, ListenerService};
use crate::sandbox::{Bind, Level, Network};
use crate::toolchain::OFFLINE;

/// The port of the gateway inside the sandbox.
const PROXY_PORT: u16 = 4118;

/// The network access and settings with which a setup fetches packages.
pub(super) struct FetchAccess {
    home: PathBuf,
    registries: Registries,
    gateway: Gateway,
    /// The sandbox that it runs in, also where checks run in none.
    level: Level,
}

impl FetchAccess {
    /// Why it failed, with advice if the cause is known.
    pub(super) fn explain(&self, why: String) -> String {
        match environment::advice(&self.gateway.refusals(), &why) {
            Some(advice) => format!("{why}\n{advice}"),
            None => why,
        }
    }
}

impl Bench {
    /// What the result of a setup depends on.
    pub(super) fn setup_key(
        &self,
        setup: &[String],
        hosts: &[String],
        files: &[PathBuf],
        trust: BaseTrust,
    ) -> io::Result<String> {
        environment::key(setup, hosts, (self.tree(), files, trust), &self.host.stamp())
    }

    /// A fresh home for a setup, and the hosts that it can reach.
    pub(super) fn fetch_access(
        &self,
        hosts: &[String],
        trust: BaseTrust,
        level: Level,
    ) -> io::Result<FetchAccess> {
        let home = if self.is_open() { self.slot.home() } else { self.slot.setup_home() };
        slot::remove(&home)?;
        fs::create_dir_all(&home)?;
        let registries = Registries::observe(&self.host, self.tree(), trust, hosts);
        registries.write(&home)?;
        let gateway = Gateway::new(registries.hosts.clone(), &self.host.proxies);
        Ok(FetchAccess { home, registries, gateway, level })
    }

    /// Runs a command line of a setup; what it writes to the tree and to its home stays.
    pub(super) fn set_up(&self, line: &str, way: &FetchAccess) -> Result<CommandResult, JobError> {
        let job = self.begin(WriteMode::Shared, WriteMode::Private)?;
        let program = self.shell_program(line);
        let mut sandbox = self.sandbox(&job, &program, Network::None);
        sandbox.level = way.level;
        if self.is_open() {
            // Checks copy the tree from where it is, and paths in what is installed must lead there.
            let binds = sandbox.writable.iter_mut().filter(|bind| bind.target == self.places.tree);
            binds.for_each(|bind| bind.target = self.tree().to_owned());
            sandbox.directory = self.tree().to_owned();
        }
        sandbox.private.retain(|path| *path != self.places.home);
        sandbox.writable.push(Bind::new(&way.home, &self.places.home));
        sandbox.read_only.extend(way.registries.read_only.iter().cloned());
        sandbox.listener_port = Some(PROXY_PORT);
        sandbox.environment.retain(|(name, _)| OFFLINE.iter().all(|(other, _)| name != other));
        sandbox.environment.extend(variables(&self.places.home));
        sandbox.environment.extend(way.registries.variables.iter().cloned());
        let serve: ListenerService<'_> = &|listener| Ok(Box::new(way.gateway.open(listener)?));
        let finished = process::run_with_listener(
            &self.launcher,
            &sandbox,
            &program.argv,
            program.capture,
            self.limits,
            &self.until,
            Some(serve),
        )
        .map_err(|error| error.to_string())?;
        Ok(CommandResult {
            line: line.to_owned(),
            ended: finished.ended,
            tail: String::from_utf8_lossy(&finished.tail).into_owned(),
            took: finished.took,
            executed_tests: finished.executed_tests,
        })
    }
}

/// The proxy settings of programs. Java and newer versions of yarn ignore the usual variables.
fn variables(home: &Path) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let mut all: Vec<(String, String)> = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]
        .map(|name| (name.to_owned(), proxy.clone()))
        .to_vec();
    let java: Vec<String> = ["http", "https"]
        .iter()
        .map(|name| format!("-D{name}.proxyHost=127.0.0.1 -D{name}.proxyPort={PROXY_PORT}"))
        .collect();
    let others = [
        ("JAVA_TOOL_OPTIONS", java.join(" ")),
        ("CARGO_HOME", home.join(".cargo").display().to_string()),
        ("YARN_HTTP_PROXY", proxy.clone()),
        ("YARN_HTTPS_PROXY", proxy),
        // Its `.pnp.cjs` leads to the cache by a path from the tree, which is elsewhere later.
        ("YARN_ENABLE_GLOBAL_CACHE", "false".to_owned()),
        ("npm_config_update_notifier", "false".to_owned()),
        ("npm_config_audit", "false".to_owned()),
        ("npm_config_fund", "false".to_owned()),
    ];
    all.extend(others.map(|(name, value)| (name.to_owned(), value)));
    all
}
