//! The second of our processes, PID 1: it builds the root of the program, drops its privileges for itself and all
//! later processes, starts the program, reaps, and reports the end.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_dumpable, set_no_new_privs};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{sethostname, setsid};

use super::channel::Channel;
use super::messages::{self, Confinement, LaunchRequest, Report};
use super::{Level, SandboxError, bounds, landlock_rules, program, root, seccomp};

/// The argument that starts this process.
pub(super) const ARGUMENT: &str = "inside";

pub(super) fn run() -> ExitCode {
    let Ok(Some((above, order, input))) = messages::receive_request() else {
        return ExitCode::from(messages::MISUSED);
    };
    let report = match run_program(&above, &order, input) {
        Ok(ended) => ended,
        Err(error) => Report::Refused(error),
    };
    let _ = above.send(&report, None);
    ExitCode::SUCCESS
}

fn run_program(
    above: &Channel,
    order: &LaunchRequest,
    input: Option<OwnedFd>,
) -> Result<Report, SandboxError> {
    let _ = setsid();
    program::take_terminal(order, input.as_ref())?;
    umask(Mode::from_bits_truncate(0o022));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(part("limits"))?;
    sethostname("bailiwick").map_err(part("UTS namespace"))?;
    let processes = root::build(&order.sandbox)?;
    let namespace = bounds::bound_namespace(&order.sandbox.bounds, &processes);
    give_powers_away(order, &processes)?;
    drop(processes);
    bounds::lower_limits(&order.sandbox.bounds)?;
    set_no_new_privs().map_err(part("no_new_privs"))?;
    let confinement = Confinement {
        landlock: landlock_rules::apply(&order.sandbox),
        seccomp: seccomp::apply(),
        memory: bounds::memory(order),
        processes: bounds::processes(order, namespace),
    };
    if order.sandbox.level == Level::Full {
        let needed = [("Landlock", &confinement.landlock), ("seccomp", &confinement.seccomp)];
        for (part, limit) in needed {
            limit.as_ref().map_err(|error| SandboxError::new(part, error))?;
        }
    }
    // No process inside can inspect this process or take its channel.
    set_dumpable(false).map_err(part("PID 1"))?;
    messages::die_with(above).map_err(|error| SandboxError::new("PID 1", error))?;
    bounds::watch_memory(order, above).map_err(|error| SandboxError::new("PID 1", error))?;
    above
        .send(&Report::Confinement(confinement), None)
        .map_err(|error| SandboxError::new("PID 1", error))?;
    start(order, input)
}

fn start(order: &LaunchRequest, input: Option<OwnedFd>) -> Result<Report, SandboxError> {
    let child = program::start(order, input)?;
    loop {
        let seen = match waitpid(None, Some(WaitPidFlag::WUNTRACED)) {
            Err(Errno::EINTR) => continue,
            seen => seen.map_err(part("PID 1"))?,
        };
        match seen {
            WaitStatus::Exited(who, code) if who == child => return Ok(Report::Exit(code)),
            WaitStatus::Signaled(who, signal, _) if who == child => {
                return Ok(Report::Signal(signal as i32));
            }
            WaitStatus::Stopped(who, _) if who == child => program::go_on(order, child),
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
fn give_powers_away(order: &LaunchRequest, processes: &OwnedFd) -> Result<(), SandboxError> {
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
