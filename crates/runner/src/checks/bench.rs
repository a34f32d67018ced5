//! The sandbox around a slot, in which one program at a time is run.

use std::io;
use std::path::{Path, PathBuf};

use bailiwick_verify::job::Ran;

use super::slot::Slot;
use super::times::{self, Settled};
use crate::process::{self, Capture, Limits};
use crate::sandbox::{Bind, Launcher, Level, Network, Sandbox};
use crate::toolchain::{Host, Visible};

/// What cargo is told of the person's settings.
const SETTINGS: &str = "cargo.toml";

/// A slot with its sandbox.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) slot: Slot,
    /// Where cargo finds the sources of dependencies.
    pub(super) sources: Sources,
    /// Paths as programs see them.
    pub(super) places: Places,
    tree: PathBuf,
    settled: Option<Settled>,
    level: Level,
    limits: Limits,
    launcher: Launcher,
    host: Host,
    visible: Visible,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.keep_times();
    }
}

/// Where cargo finds the sources of dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    /// In what the person has fetched, which can only be read.
    Person,
    /// In what was fetched for checks.
    Fetched,
}

/// Paths as programs see them: the same for every slot, so that a build cache stays good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
    pub(super) home: PathBuf,
    pub(super) cargo: PathBuf,
    pub(super) results: PathBuf,
    pub(super) tools: PathBuf,
}

/// A program to run.
pub(super) struct Program<'a> {
    /// As a person would write it.
    pub(super) line: String,
    pub(super) argv: Vec<String>,
    /// Where it starts, as it sees it.
    pub(super) directory: &'a Path,
    /// What its environment has beside ours, or its whole environment.
    pub(super) environment: Environment<'a>,
    pub(super) capture: Capture,
}

/// A program's environment.
pub(super) enum Environment<'a> {
    /// Ours, with this.
    With(&'a [(String, String)]),
    /// This.
    Whole(&'a [(String, String)]),
}

impl Bench {
    pub(super) fn new(
        slot: Slot,
        level: Level,
        limits: Limits,
        launcher: Launcher,
        host: Host,
    ) -> Self {
        let visible = host.visible();
        let places = match level {
            Level::Off => Places {
                tree: slot.tree(),
                target: slot.target(),
                home: slot.home(),
                cargo: host.cargo.clone(),
                results: slot.results(),
                tools: slot.tools(),
            },
            Level::Partial | Level::Full => {
                let inside = |name: &str| Path::new("/bailiwick").join(name);
                Places {
                    tree: inside("tree"),
                    target: inside("target"),
                    home: inside("home"),
                    cargo: inside("cargo"),
                    results: inside("results"),
                    tools: inside("tools"),
                }
            }
        };
        let tree = slot.tree();
        Self {
            slot,
            sources: Sources::Person,
            places,
            tree,
            settled: None,
            level,
            limits,
            launcher,
            host,
            visible,
        }
    }

    /// Where the tree is on the host.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Makes room for the next tree.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.sources = Sources::Person;
        self.keep_times();
        self.slot.clear()?;
        let settings = self.slot.tools().join(SETTINGS);
        match self.host.cargo_settings() {
            Some(text) => std::fs::write(settings, text),
            None => match std::fs::remove_file(settings) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Err(_) | Ok(()) => Ok(()),
            },
        }
    }

    /// Sets the times of the tree's files, before anything is run on it.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.settled.is_none() {
            self.settled = Some(times::settle(&self.tree, &self.slot.times())?);
        }
        Ok(())
    }

    fn keep_times(&mut self) {
        let Some(settled) = self.settled.take() else { return };
        if settled.keep(&self.tree, &self.slot.times()).is_err() {
            // Without it everything is built anew, which is always right.
            let _ = std::fs::remove_file(self.slot.times());
        }
    }

    /// Runs a command line in the tree.
    pub(super) fn shell(&self, line: &str) -> Result<Ran, String> {
        self.run(&self.shell_program(line)).map(|(ran, _)| ran)
    }

    /// Runs a command line in the tree, with a network.
    pub(super) fn fetch(&self, line: &str) -> Result<Ran, String> {
        self.run_with(&self.shell_program(line), Network::Host).map(|(ran, _)| ran)
    }

    fn shell_program(&self, line: &str) -> Program<'_> {
        Program {
            line: line.to_owned(),
            argv: ["/bin/sh", "-c", line].map(str::to_owned).into(),
            directory: &self.places.tree,
            environment: Environment::With(&[]),
            capture: Capture::Together,
        }
    }

    /// Runs a program, and gives its standard output where that is kept apart.
    pub(super) fn run(&self, program: &Program<'_>) -> Result<(Ran, Vec<u8>), String> {
        self.run_with(program, Network::None)
    }

    fn run_with(&self, program: &Program<'_>, network: Network) -> Result<(Ran, Vec<u8>), String> {
        let sandbox = self.sandbox(program, network);
        let finished =
            process::run(&self.launcher, &sandbox, &program.argv, program.capture, self.limits)
                .map_err(|error| error.to_string())?;
        let ran = Ran {
            line: program.line.clone(),
            ended: finished.ended,
            tail: String::from_utf8_lossy(&finished.tail).into_owned(),
            took: finished.took,
        };
        Ok((ran, finished.output))
    }

    fn sandbox(&self, program: &Program<'_>, network: Network) -> Sandbox {
        let places = &self.places;
        let mut writable = vec![
            Bind::new(self.slot.tree(), &places.tree),
            Bind::new(self.slot.target(), &places.target),
            Bind::new(self.slot.results(), &places.results),
        ];
        let mut read_only = self.visible.binds.clone();
        read_only.push(Bind::new(self.slot.tools(), &places.tools));
        let mut private = vec![places.home.clone()];
        let mut layered = Vec::new();
        match self.sources {
            Sources::Person => {
                // Cargo locks and notes beside its sources, and may have to unpack one of them.
                private.push(places.cargo.clone());
                layered = self.host.fetched(&places.cargo);
            }
            Sources::Fetched => {
                let own = Bind::new(self.slot.cargo(), &places.cargo);
                match network {
                    Network::Host => writable.push(own),
                    // What a change runs must not settle how the next one is built.
                    Network::None => layered.push(own),
                }
            }
        }
        let settings = self.slot.tools().join(SETTINGS);
        if settings.is_file() {
            read_only.push(Bind::new(settings, places.cargo.join("config.toml")));
        }
        let environment = match program.environment {
            Environment::Whole(all) => all.to_vec(),
            Environment::With(more) => self.environment(network, more),
        };
        Sandbox {
            read_only,
            writable,
            layered,
            private,
            hidden: Vec::new(),
            environment,
            directory: program.directory.to_owned(),
            network,
            level: self.level,
        }
    }

    /// Made from nothing, so that nothing of the person's is in it.
    fn environment(&self, network: Network, more: &[(String, String)]) -> Vec<(String, String)> {
        let places = &self.places;
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let cargo = match (self.level, self.sources) {
            (Level::Off, Sources::Fetched) => shown(&self.slot.cargo()),
            _ => shown(&places.cargo),
        };
        let mut all: Vec<(&str, String)> = vec![
            ("PATH", self.visible.path.clone()),
            ("HOME", shown(&places.home)),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("NO_COLOR", "1".to_owned()),
            ("CARGO_TERM_COLOR", "never".to_owned()),
            ("CARGO_TERM_PROGRESS_WHEN", "never".to_owned()),
            ("CARGO_HOME", cargo),
            ("CARGO_TARGET_DIR", shown(&places.target)),
            // A toolchain that is not there is an error that says so.
            ("RUSTUP_AUTO_INSTALL", "0".to_owned()),
        ];
        match network {
            Network::None => all.push(("CARGO_NET_OFFLINE", "true".to_owned())),
            Network::Host => {
                let proxies = self.host.proxies.iter();
                all.extend(proxies.map(|(name, value)| (name.as_str(), value.clone())));
            }
        }
        all.extend(self.visible.rustup.clone().map(|place| ("RUSTUP_HOME", place)));
        let ours = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        ours.chain(more.iter().cloned()).collect()
    }
}
