//! Which parts of the sandbox work on this machine, found by starting one.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::launch::Received;
use super::{Bind, Bounds, Confinement, Launcher, Level, Network, Report, Sandbox, SandboxError};

/// One part of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is called.
    pub name: &'static str,
    /// Whether it works here.
    pub works: bool,
    /// How that was found.
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

/// What there is beside those: without one of them something else is done, or not allowed.
const FURTHER: [&str; 6] =
    ["Landlock", "seccomp", "door", "layers", "bound on memory", "bound on processes"];
/// Where something looks writable, and how the program of the probe says whether it is.
const LAYERED: &str = "/layered";
const WRITABLE: i32 = 7;
const NOT_WRITABLE: i32 = 8;

/// The result of starting a sandbox.
struct ProbeResult {
    held: Confinement,
    door: Result<String, String>,
    layers: Result<String, String>,
}

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

fn sandbox() -> Sandbox {
    Sandbox {
        read_only: Vec::new(),
        writable: Vec::new(),
        layered: vec![Bind::new("/usr", LAYERED)],
        overlaid: Vec::new(),
        private: Vec::new(),
        emptied: Vec::new(),
        hidden: Vec::new(),
        frozen: Vec::new(),
        environment: Vec::new(),
        directory: PathBuf::from("/"),
        network: Network::None,
        door: Some(0),
        bounds: Bounds { memory: Some(1 << 30), processes: Some(1000) },
        level: Level::Partial,
    }
}

fn try_one(launcher: &Launcher) -> Result<ProbeResult, SandboxError> {
    let line = format!("echo x > {LAYERED}/x && exit {WRITABLE}; exit {NOT_WRITABLE}");
    let argv = ["/bin/sh", "-c", &line].map(str::to_owned);
    let mut running = launcher.start(&sandbox(), &argv, Stdio::null(), Stdio::null())?;
    let (mut held, mut door) = (None, Err("it was not opened".to_owned()));
    loop {
        match running.next_report(Duration::from_secs(20)) {
            Received::Report(Report::Door(_)) => door = Ok("opened".to_owned()),
            Received::Report(Report::Confinement(seen)) => held = Some(seen),
            Received::Report(Report::Refused(error)) => return Err(error),
            Received::Report(Report::Exit(code @ (WRITABLE | NOT_WRITABLE))) => {
                let layers = match code {
                    WRITABLE => Ok("read-only files can be overlaid".to_owned()),
                    _ => Err("this kernel lays no layer over directories".to_owned()),
                };
                let held =
                    held.ok_or_else(|| SandboxError::new("sandbox", "it did not say what holds"))?;
                return Ok(ProbeResult { held, door, layers });
            }
            Received::Report(Report::Exit(_) | Report::Signal(_) | Report::MemorySpent(_)) => {
                return Err(SandboxError::new("sandbox", "/bin/sh does not run in it"));
            }
            Received::TimedOut | Received::Closed => {
                return Err(SandboxError::new("sandbox", "it ended without a word"));
            }
        }
    }
}

fn parts(tried: Result<ProbeResult, SandboxError>) -> Vec<Part> {
    let not = || Err("not tried: there is no sandbox".to_owned());
    let (failed, further) = match tried {
        Ok(ProbeResult { held, door, layers }) => {
            let Confinement { landlock, seccomp, memory, processes } = held;
            (None, [landlock, seccomp, door, layers, memory, processes])
        }
        Err(error) => (Some(error), [not(), not(), not(), not(), not(), not()]),
    };
    // What comes after the one that failed was not tried; a failure of none of them fails all.
    let broken = failed
        .as_ref()
        .map(|error| NAMESPACES.iter().position(|name| *name == error.part).unwrap_or_default());
    let namespaces = NAMESPACES.into_iter().enumerate().map(|(number, name)| {
        let (works, seen) = match (&failed, broken) {
            (Some(error), Some(broken)) if number == broken => (false, error.to_string()),
            (Some(_), Some(broken)) if number > broken => (false, "not tried".to_owned()),
            _ => (true, "created".to_owned()),
        };
        Part { name, works, seen }
    });
    let further = FURTHER.into_iter().zip(further).map(|(name, held)| match held {
        Ok(seen) => Part { name, works: true, seen },
        Err(seen) => Part { name, works: false, seen },
    });
    namespaces.chain(further).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(landlock: Result<String, String>) -> Vec<Part> {
        let fine = || Ok("yes".to_owned());
        // Bounds and layers are no part of a level: what needs them does not start without.
        let none = || Err("no".to_owned());
        let held = Confinement { landlock, seccomp: fine(), memory: none(), processes: none() };
        parts(Ok(ProbeResult { held, door: fine(), layers: none() }))
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
