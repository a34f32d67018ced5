//! Which parts of the sandbox work on this machine, found by starting one.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::launch::Received;
use super::{
    Bind, Bounds, Confinement, Inactive, Launcher, Level, Network, Report, Sandbox, SandboxError,
};

/// One part of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub name: &'static str,
    /// Whether it works here.
    pub works: bool,
    /// How that was found.
    pub seen: String,
}

/// In the order of their creation.
const NAMESPACES: [&str; 6] = [
    "user namespace",
    "mount namespace",
    "pid namespace",
    "network namespace",
    "IPC namespace",
    "UTS namespace",
];

/// The other parts: without one of them, a replacement is used, or the feature is refused.
const FURTHER: [&str; 6] =
    ["Landlock", "seccomp", "door", "layers", "bound on memory", "bound on processes"];
/// A directory that looks writable, and the exit codes of the program that tests it.
const LAYERED: &str = "/layered";
const WRITABLE: i32 = 7;
const NOT_WRITABLE: i32 = 8;

/// The result of starting a sandbox.
struct ProbeResult {
    held: Confinement,
    listener: Result<String, Inactive>,
    layers: Result<String, Inactive>,
}

/// Starts a sandbox with this program and reports which parts of it work.
pub fn probe() -> Vec<Part> {
    match Launcher::own() {
        Ok(launcher) => probe_with(&launcher),
        Err(error) => parts(Err(error)),
    }
}

/// Starts a sandbox and reports which parts of it work.
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
        read_only_paths: Vec::new(),
        environment: Vec::new(),
        directory: PathBuf::from("/"),
        network: Network::None,
        listener_port: Some(0),
        bounds: Bounds { memory: Some(1 << 30), processes: Some(1000) },
        level: Level::Partial,
    }
}

fn try_one(launcher: &Launcher) -> Result<ProbeResult, SandboxError> {
    let line = format!("echo x > {LAYERED}/x && exit {WRITABLE}; exit {NOT_WRITABLE}");
    let argv = ["/bin/sh", "-c", &line].map(str::to_owned);
    let mut running = launcher.start(&sandbox(), &argv, Stdio::null(), Stdio::null())?;
    let (mut held, mut listener) = (None, Err(Inactive::because("it was not opened")));
    loop {
        match running.next_report(Duration::from_secs(20)) {
            Received::Report(Report::Listener(_)) => listener = Ok("opened".to_owned()),
            Received::Report(Report::Confinement(seen)) => held = Some(seen),
            Received::Report(Report::Refused(error)) => return Err(error),
            Received::Report(Report::Exit(code @ (WRITABLE | NOT_WRITABLE))) => {
                let layers = match code {
                    WRITABLE => Ok("read-only files can be overlaid".to_owned()),
                    _ => Err(Inactive::because(
                        "this kernel does not support overlays in a user namespace",
                    )),
                };
                let held = held
                    .ok_or_else(|| SandboxError::new("sandbox", "it did not report its limits"))?;
                return Ok(ProbeResult { held, listener, layers });
            }
            Received::Report(Report::Exit(_) | Report::Signal(_) | Report::MemorySpent(_)) => {
                return Err(SandboxError::new("sandbox", "/bin/sh does not run in it"));
            }
            Received::TimedOut | Received::Closed => {
                return Err(SandboxError::new("sandbox", "it ended without a report"));
            }
        }
    }
}

fn parts(tried: Result<ProbeResult, SandboxError>) -> Vec<Part> {
    let not = || Err(Inactive::because("not tried: there is no sandbox"));
    let (failed, further) = match tried {
        Ok(ProbeResult { held, listener, layers }) => {
            let Confinement { landlock, seccomp, memory, processes } = held;
            (None, [landlock, seccomp, listener, layers, memory, processes])
        }
        Err(error) => (Some(error), [not(), not(), not(), not(), not(), not()]),
    };
    // The parts after the failed one were not tried; a failure of any other part fails all.
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
        Err(error) => Part { name, works: false, seen: error.to_string() },
    });
    namespaces.chain(further).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(landlock: Result<String, Inactive>) -> Vec<Part> {
        let fine = || Ok("yes".to_owned());
        // Limits and layers are not part of a level: a program that needs them does not start without them.
        let none = || Err(Inactive::because("no"));
        let confinement =
            Confinement { landlock, seccomp: fine(), memory: none(), processes: none() };
        parts(Ok(ProbeResult { held: confinement, listener: fine(), layers: none() }))
    }

    #[test]
    fn level_is_full_only_if_every_part_works() {
        assert_eq!(level(&of(Ok(String::new()))), Level::Full);
        assert_eq!(level(&of(Err(Inactive::because("")))), Level::Partial);
        for part in ["user namespace", "UTS namespace", "/usr/bin/anything"] {
            let broken = parts(Err(SandboxError::new(part, "no")));
            assert_eq!(level(&broken), Level::Off, "{part}");
            assert!(broken.iter().any(|tested| tested.seen.contains("no")), "{broken:?}");
        }
        assert_eq!(level(&[]), Level::Off);
    }
}
