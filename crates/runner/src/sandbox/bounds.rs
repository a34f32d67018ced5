//! How much memory and how many processes a program and all that it starts may have together.
//!
//! A control group bounds both where this process may make one. Without it, memory is watched by PID 1,
//! and processes are bounded by the namespace of PIDs, or by the limit of their user.

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
use super::wire::{LaunchRequest, Report};

/// What all that a program starts may take together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes at once, each thread counting as one.
    pub processes: Option<u64>,
}

/// More than any build or test has at once.
const MAX_PROCESSES: u64 = 8192;
/// No file that is written grows beyond this many bytes.
const MAX_FILE_SIZE: u64 = 8 << 30;
/// The kernel does not use the first PIDs of a namespace a second time.
const FIRST_PIDS: u64 = 300;
/// The first kernel on which each namespace of PIDs has a highest one of its own: on an older one the
/// same file sets up the host.
const OWN_HIGHEST_PID: (u32, u32) = (6, 14);
const BEAT: Duration = Duration::from_millis(200);
/// How much longer than a look at the memory it is until the next one.
const REST: u32 = 10;
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// How many bytes a millisecond may add: more than memory can be filled with.
const MAX_GROWTH: u64 = 8 << 20;

/// Limits that each process has for itself, or with those of the same user inside.
pub(super) fn lower_limits(bounds: &Bounds) -> Result<(), SandboxError> {
    // In the new user namespace only what is in it counts; where somebody is root, the kernel does not
    // count processes at all.
    let processes = bounds.processes.map_or(MAX_PROCESSES, |most| most.min(MAX_PROCESSES));
    lower(Resource::RLIMIT_NPROC, processes)
        .and_then(|()| lower(Resource::RLIMIT_FSIZE, MAX_FILE_SIZE))
        .map_err(|error| SandboxError::new("limits", error))
}

/// One that is lower already stays.
fn lower(what: Resource, most: u64) -> Result<(), Errno> {
    let (_, hard) = getrlimit(what)?;
    let most = most.min(hard);
    setrlimit(what, most, most)
}

/// Bounds the namespace of PIDs that this process is the first of. `processes` is `/proc`.
pub(super) fn bound_namespace(bounds: &Bounds, processes: &OwnedFd) -> Result<(), String> {
    let Some(most) = bounds.processes else { return Ok(()) };
    let open = |name: &str, how: OFlag| -> io::Result<fs::File> {
        let file = openat(processes.as_fd(), name, how | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(fs::File::from(file))
    };
    let bound = || -> io::Result<()> {
        let mut release = String::new();
        open("sys/kernel/osrelease", OFlag::O_RDONLY)?.read_to_string(&mut release)?;
        if version(&release).is_none_or(|version| version < OWN_HIGHEST_PID) {
            return Err(io::Error::other("this kernel cannot bound a namespace of PIDs"));
        }
        let highest = most.saturating_add(FIRST_PIDS).to_string();
        open("sys/kernel/pid_max", OFlag::O_WRONLY)?.write_all(highest.as_bytes())
    };
    bound().map_err(|error| error.to_string())
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|one: char| !one.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What bounds the number of processes.
pub(super) fn processes(
    order: &LaunchRequest,
    namespace: Result<(), String>,
) -> Result<String, String> {
    let Some(most) = order.sandbox.bounds.processes else {
        return Err("no bound was asked for".to_owned());
    };
    match namespace {
        _ if order.grouped => Ok(format!("{most}, by a control group")),
        Ok(()) => Ok(format!("{}, by the namespace of PIDs", most.saturating_add(FIRST_PIDS))),
        Err(_) if order.user != 0 => {
            Ok(format!("{}, by the limit of the user", most.min(MAX_PROCESSES)))
        }
        Err(why) => Err(format!("{why}, and the kernel counts none of root's")),
    }
}

/// What bounds memory.
pub(super) fn memory(order: &LaunchRequest) -> Result<String, String> {
    match order.sandbox.bounds.memory {
        None => Err("no bound was asked for".to_owned()),
        Some(most) if order.grouped => Ok(format!("{}, by a control group", readable_size(most))),
        Some(most) => {
            let (most, beat) = (readable_size(most), BEAT.as_millis());
            Ok(format!("{most}, looked at every {beat} ms when it is near"))
        }
    }
}

/// Inspects the memory of everything inside from time to time, and ends it all when it is too much.
pub(super) fn watch_memory(order: &LaunchRequest, above: &Channel) -> io::Result<()> {
    let Some(most) = order.sandbox.bounds.memory.filter(|_| !order.grouped) else {
        return Ok(());
    };
    let above = Channel::new(above.socket().try_clone()?);
    let memory = Memory::of(&order.sandbox);
    let watch = move || {
        let mut pause = BEAT;
        loop {
            std::thread::sleep(pause);
            let begun = Instant::now();
            let Some(room) = memory.room(most) else {
                let _ = above.send(&Report::MemorySpent(most), None);
                // The end of PID 1 is the end of everything inside.
                std::process::exit(0);
            };
            pause = pause_after(begun.elapsed(), room);
        }
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}

/// Many processes with many files take long to look at, and memory that is far from its limit does not reach it soon.
fn pause_after(look: Duration, room: u64) -> Duration {
    let to_fill = Duration::from_millis(room / MAX_GROWTH);
    look.saturating_mul(REST).max(to_fill).clamp(BEAT, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_frequent_as_the_limit_is_near() {
        let quick = Duration::from_millis(1);
        assert_eq!(pause_after(quick, 0), BEAT);
        assert_eq!(pause_after(quick, 8 << 30), Duration::from_millis(1024));
        assert_eq!(pause_after(quick, u64::MAX), MAX_PAUSE);
        assert_eq!(pause_after(Duration::from_millis(50), 0), Duration::from_millis(500));
        assert_eq!(pause_after(Duration::from_secs(9), 0), MAX_PAUSE);
    }

    #[test]
    fn versions_are_read_as_the_kernel_writes_them() {
        assert_eq!(version("6.18.44-generic"), Some((6, 18)));
        assert_eq!(version("5.4.0-rc1\n"), Some((5, 4)));
        assert_eq!(version("unknown"), None);
        assert!(version("5.15.0").is_some_and(|version| version < OWN_HIGHEST_PID));
    }
}
