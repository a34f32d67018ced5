//! The second of our processes, PID 1: it builds what the program sees, gives its powers away for
//! itself and all that comes after, starts the program, reaps, and tells how it ended.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_dumpable, set_no_new_privs};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{sethostname, setsid};

use super::wire::{self, Held, Order, Report};
use super::{Level, Network, SandboxError, fence, filter, loopback, program, root};

/// What tells our program that it is this one.
pub(super) const ARGUMENT: &str = "inside";

/// More than any build or test has at once.
const MOST_PROCESSES: u64 = 8192;
/// No file that is written grows beyond this many bytes.
const LARGEST_FILE: u64 = 8 << 30;

pub(super) fn run() -> ExitCode {
    let Ok(Some((above, order))) = wire::receive_order() else {
        return ExitCode::from(wire::MISUSED);
    };
    let report = match hold(&above, &order) {
        Ok(ended) => ended,
        Err(error) => Report::Refused(error),
    };
    let _ = wire::send(&above, &report);
    ExitCode::SUCCESS
}

fn hold(above: &UnixStream, order: &Order) -> Result<Report, SandboxError> {
    let _ = setsid();
    umask(Mode::from_bits_truncate(0o022));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(part("limits"))?;
    sethostname("bailiwick").map_err(part("UTS namespace"))?;
    if order.sandbox.network == Network::None {
        loopback::raise().map_err(|error| SandboxError::new("network namespace", error))?;
    }
    let processes = root::build(&order.sandbox)?;
    give_powers_away(order, &processes)?;
    drop(processes);
    // In the new user namespace only what is in it counts; where somebody is root, the kernel does not
    // count processes at all.
    bound(Resource::RLIMIT_NPROC, MOST_PROCESSES)?;
    bound(Resource::RLIMIT_FSIZE, LARGEST_FILE)?;
    set_no_new_privs().map_err(part("no_new_privs"))?;
    let held = Held { landlock: fence::apply(&order.sandbox), seccomp: filter::apply() };
    if order.sandbox.level == Level::Full {
        let needed = [("Landlock", &held.landlock), ("seccomp", &held.seccomp)];
        for (part, held) in needed {
            held.as_ref().map_err(|why| SandboxError::new(part, why))?;
        }
    }
    // Nobody inside can look into this process, or take its line from it.
    set_dumpable(false).map_err(part("PID 1"))?;
    wire::die_with(above).map_err(|error| SandboxError::new("PID 1", error))?;
    wire::send(above, &Report::Held(held)).map_err(|error| SandboxError::new("PID 1", error))?;
    start(order)
}

/// Lowers a limit; one that is lower already stays.
fn bound(what: Resource, most: u64) -> Result<(), SandboxError> {
    let (_, hard) = getrlimit(what).map_err(part("limits"))?;
    let most = most.min(hard);
    setrlimit(what, most, most).map_err(part("limits"))
}

fn start(order: &Order) -> Result<Report, SandboxError> {
    let child = program::start(order)?;
    loop {
        let seen = match waitpid(None, None) {
            Err(Errno::EINTR) => continue,
            seen => seen.map_err(part("PID 1"))?,
        };
        match seen {
            WaitStatus::Exited(who, code) if who == child => return Ok(Report::Exit(code)),
            WaitStatus::Signaled(who, signal, _) if who == child => {
                return Ok(Report::Signal(signal as i32));
            }
            WaitStatus::Exited(..)
            | WaitStatus::Signaled(..)
            | WaitStatus::Stopped(..)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => {}
        }
    }
}

/// A second user namespace, in which the program is who it is outside. What the first one owns, the
/// mounts and the network above all, is beyond its powers, even where it is root.
fn give_powers_away(order: &Order, processes: &OwnedFd) -> Result<(), SandboxError> {
    unshare(CloneFlags::CLONE_NEWUSER).map_err(part("user namespace"))?;
    let write = |name: &str, text: String| -> io::Result<()> {
        let file =
            openat(processes.as_fd(), name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        std::fs::File::from(file).write_all(text.as_bytes())
    };
    write("self/setgroups", "deny".to_owned())
        .and_then(|()| write("self/uid_map", format!("{} 0 1", order.user)))
        .and_then(|()| write("self/gid_map", format!("{} 0 1", order.group)))
        .map_err(|error| SandboxError::new("user namespace", error))
}

fn part(name: &'static str) -> impl Fn(Errno) -> SandboxError {
    move |error| SandboxError::new(name, error)
}
