//! What a sandbox holds on this machine: seen by starting one.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::launch::Next;
use super::{Held, Launcher, Level, Network, Report, Sandbox, SandboxError};

/// One part of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is called.
    pub name: &'static str,
    /// Whether it works here.
    pub works: bool,
    /// How that was seen.
    pub seen: String,
}

/// In the order in which they are made.
const NAMESPACES: [&str; 6] = [
    "user namespace",
    "mount namespace",
    "pid namespace",
    "network namespace",
    "IPC namespace",
    "UTS namespace",
];

/// Starts a sandbox with this program and says which parts of it work.
pub fn probe() -> Vec<Part> {
    match Launcher::own() {
        Ok(launcher) => probe_with(&launcher),
        Err(error) => parts(Err(error)),
    }
}

/// Starts a sandbox and says which parts of it work.
pub fn probe_with(launcher: &Launcher) -> Vec<Part> {
    parts(try_one(launcher))
}

/// The level that the parts add up to.
pub fn level(parts: &[Part]) -> Level {
    let works = |name: &str| parts.iter().any(|part| part.name == name && part.works);
    if !NAMESPACES.into_iter().all(works) {
        Level::Off
    } else if works("Landlock") && works("seccomp") {
        Level::Full
    } else {
        Level::Partial
    }
}

fn try_one(launcher: &Launcher) -> Result<Held, SandboxError> {
    let sandbox = Sandbox {
        read_only: Vec::new(),
        writable: Vec::new(),
        layered: Vec::new(),
        overlaid: Vec::new(),
        private: Vec::new(),
        hidden: Vec::new(),
        environment: Vec::new(),
        directory: PathBuf::from("/"),
        network: Network::None,
        level: Level::Partial,
    };
    let argv = ["/bin/sh", "-c", "exit 7"].map(str::to_owned);
    let mut running = launcher.start(&sandbox, &argv, Stdio::null(), Stdio::null())?;
    let mut seen = None;
    loop {
        match running.next_report(Duration::from_secs(20)) {
            Next::Report(Report::Held(held)) => seen = Some(held),
            Next::Report(Report::Refused(error)) => return Err(error),
            Next::Report(Report::Exit(7)) => {
                return seen
                    .ok_or_else(|| SandboxError::new("sandbox", "it did not say what holds"));
            }
            Next::Report(Report::Exit(_) | Report::Signal(_)) => {
                return Err(SandboxError::new("sandbox", "/bin/sh does not run in it"));
            }
            Next::TimedOut | Next::Over => {
                return Err(SandboxError::new("sandbox", "it ended without a word"));
            }
        }
    }
}

fn parts(tried: Result<Held, SandboxError>) -> Vec<Part> {
    let held = |held: Result<String, String>| match held {
        Ok(seen) => (true, seen),
        Err(why) => (false, why),
    };
    let (failed, landlock, seccomp) = match tried {
        Ok(seen) => (None, held(seen.landlock), held(seen.seccomp)),
        Err(error) => {
            let not = || (false, "not tried: there is no sandbox".to_owned());
            (Some(error), not(), not())
        }
    };
    // What comes after the one that failed was not tried; a failure of none of them fails all.
    let broken = failed
        .as_ref()
        .map(|error| NAMESPACES.iter().position(|name| *name == error.part).unwrap_or_default());
    let namespaces = NAMESPACES.into_iter().enumerate().map(|(number, name)| {
        let (works, seen) = match (&failed, broken) {
            (Some(error), Some(broken)) if number == broken => (false, error.to_string()),
            (Some(_), Some(broken)) if number > broken => (false, "not tried".to_owned()),
            _ => (true, "made one".to_owned()),
        };
        Part { name, works, seen }
    });
    let rest = [("Landlock", landlock), ("seccomp", seccomp)].map(|(name, (works, seen))| Part {
        name,
        works,
        seen,
    });
    namespaces.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(landlock: Result<String, String>) -> Vec<Part> {
        parts(Ok(Held { landlock, seccomp: Ok("refused".to_owned()) }))
    }

    #[test]
    fn the_level_is_full_only_if_every_part_works() {
        assert_eq!(level(&of(Ok(String::new()))), Level::Full);
        assert_eq!(level(&of(Err(String::new()))), Level::Partial);
        for part in ["user namespace", "UTS namespace", "/usr/bin/anything"] {
            let broken = parts(Err(SandboxError::new(part, "no")));
            assert_eq!(level(&broken), Level::Off, "{part}");
            assert!(broken.iter().any(|one| one.seen.contains("no")), "{broken:?}");
        }
        assert_eq!(level(&[]), Level::Off);
    }
}
