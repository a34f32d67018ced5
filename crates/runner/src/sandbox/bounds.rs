//! Limits on the memory and the number of processes of a program and everything it starts.
//!
//! A control group enforces both if this process may create one. Otherwise PID 1 watches the memory, and the PID
//! namespace, or the limit of the user, bounds the number of processes.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use bailiwick_model::size::readable_size;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use super::SandboxError;
use super::channel::Channel;
use super::memory::Memory;
use super::messages::{Inactive, LaunchRequest, Report};

/// The limits for a program and everything it starts together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes at once, each thread counting as one.
    pub processes: Option<u64>,
}

/// More than any build or test needs.
const MAX_PROCESSES: u64 = 8192;
/// The maximum size of a written file, in bytes.
const MAX_FILE_SIZE: u64 = 8 << 30;
/// The kernel does not reuse the first PIDs of a namespace.
const FIRST_PIDS: u64 = 300;
/// The first kernel with a `pid_max` for each PID namespace: on an older one, the file changes the host.
const PID_MAX_PER_NAMESPACE: (u32, u32) = (6, 14);
/// The shortest time between two measurements of the memory.
const MIN_PAUSE: Duration = Duration::from_millis(200);
/// The pause after a measurement is at least this many times as long as the measurement.
const PAUSE_FACTOR: u32 = 10;
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// More bytes than a program can fill in a millisecond.
const MAX_GROWTH: u64 = 8 << 20;

/// Sets the limits of each process, and of all processes of its user in the sandbox.
pub(super) fn lower_limits(bounds: &Bounds) -> Result<(), SandboxError> {
    // Only processes in the new user namespace count; the kernel does not count those of root at all.
    let processes = bounds.processes.map_or(MAX_PROCESSES, |most| most.min(MAX_PROCESSES));
    lower(Resource::RLIMIT_NPROC, processes)
        .and_then(|()| lower(Resource::RLIMIT_FSIZE, MAX_FILE_SIZE))
        .map_err(|error| SandboxError::new("limits", error))
}

/// Never raises a limit.
fn lower(what: Resource, most: u64) -> Result<(), Errno> {
    let (_, hard) = getrlimit(what)?;
    let most = most.min(hard);
    setrlimit(what, most, most)
}

/// Limits the PID namespace of which this process is PID 1. `processes` is `/proc`.
pub(super) fn bound_namespace(bounds: &Bounds, processes: &OwnedFd) -> io::Result<()> {
    let Some(most) = bounds.processes else { return Ok(()) };
    let open = |name: &str, how: OFlag| -> io::Result<fs::File> {
        let file = openat(processes.as_fd(), name, how | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(fs::File::from(file))
    };
    let mut release = String::new();
    open("sys/kernel/osrelease", OFlag::O_RDONLY)?.read_to_string(&mut release)?;
    if version(&release).is_none_or(|version| version < PID_MAX_PER_NAMESPACE) {
        return Err(io::Error::other("this kernel cannot limit a PID namespace"));
    }
    let highest = most.saturating_add(FIRST_PIDS).to_string();
    open("sys/kernel/pid_max", OFlag::O_WRONLY)?.write_all(highest.as_bytes())
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|one: char| !one.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

const NO_LIMIT: &str = "no limit was requested";

/// What limits the number of processes.
pub(super) fn processes(
    order: &LaunchRequest,
    namespace: io::Result<()>,
) -> Result<String, Inactive> {
    let Some(most) = order.sandbox.bounds.processes else {
        return Err(Inactive::because(NO_LIMIT));
    };
    match namespace {
        _ if order.grouped => Ok(format!("{most}, by a control group")),
        Ok(()) => Ok(format!("{}, by the PID namespace", most.saturating_add(FIRST_PIDS))),
        Err(_) if order.user != 0 => {
            Ok(format!("{}, by the limit of the user", most.min(MAX_PROCESSES)))
        }
        Err(error) => Err(Inactive::because(format_args!(
            "{error}, and the kernel does not count the processes of root"
        ))),
    }
}

/// What limits the memory.
pub(super) fn memory(order: &LaunchRequest) -> Result<String, Inactive> {
    match order.sandbox.bounds.memory {
        None => Err(Inactive::because(NO_LIMIT)),
        Some(most) if order.grouped => Ok(format!("{}, by a control group", readable_size(most))),
        Some(most) => {
            let (most, beat) = (readable_size(most), MIN_PAUSE.as_millis());
            Ok(format!("{most}, measured every {beat} ms when it is close"))
        }
    }
}

/// Measures the memory of everything inside regularly, and kills it all when the limit is exceeded.
pub(super) fn watch_memory(order: &LaunchRequest, above: &Channel) -> io::Result<()> {
    let Some(most) = order.sandbox.bounds.memory.filter(|_| !order.grouped) else {
        return Ok(());
    };
    let above = Channel::new(above.socket().try_clone()?);
    let memory = Memory::of(&order.sandbox);
    let watch = move || {
        let mut pause = MIN_PAUSE;
        loop {
            std::thread::sleep(pause);
            let begun = Instant::now();
            let Some(room) = memory.room(most) else {
                let _ = above.send(&Report::MemorySpent(most), None);
                // When PID 1 exits, the kernel kills everything inside.
                std::process::exit(0);
            };
            pause = pause_after(begun.elapsed(), room);
        }
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}

/// Waits longer after a slow measurement, and while the limit cannot be reached soon.
fn pause_after(look: Duration, room: u64) -> Duration {
    let to_fill = Duration::from_millis(room / MAX_GROWTH);
    look.saturating_mul(PAUSE_FACTOR).max(to_fill).clamp(MIN_PAUSE, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_more_often_near_its_limit() {
        let quick = Duration::from_millis(1);
        assert_eq!(pause_after(quick, 0), MIN_PAUSE);
        assert_eq!(pause_after(quick, 8 << 30), Duration::from_millis(1024));
        assert_eq!(pause_after(quick, u64::MAX), MAX_PAUSE);
        assert_eq!(pause_after(Duration::from_millis(50), 0), Duration::from_millis(500));
        assert_eq!(pause_after(Duration::from_secs(9), 0), MAX_PAUSE);
    }

    #[test]
    fn kernel_versions_are_parsed() {
        assert_eq!(version("6.18.44-generic"), Some((6, 18)));
        assert_eq!(version("5.4.0-rc1\n"), Some((5, 4)));
        assert_eq!(version("unknown"), None);
        assert!(version("5.15.0").is_some_and(|version| version < PID_MAX_PER_NAMESPACE));
    }
}
