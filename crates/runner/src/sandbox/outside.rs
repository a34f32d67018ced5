//! The first of our processes: it makes the namespaces, starts the one that is PID 1 in them, passes
//! its reports on, and ends it when the launcher says so or is gone.

use std::fs;
use std::io::{self, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use super::wire::{self, Order, Report};
use super::{Level, Network, SandboxError, inside, unguarded};

pub(super) fn run() -> ExitCode {
    close_inherited();
    let Ok(Some((above, order))) = wire::receive_order() else {
        return ExitCode::from(wire::MISUSED);
    };
    let went = match order.sandbox.level {
        Level::Off => unguarded::run(&above, &order),
        Level::Partial | Level::Full => enclosed(&above, &order),
    };
    match went {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = wire::send(&above, &Report::Refused(error));
            ExitCode::FAILURE
        }
    }
}

/// Whatever the launcher's own parents left open is not for the program.
fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of them was the listing itself, and is closed already.
        let _ = nix::unistd::close(number);
    }
}

fn enclosed(above: &UnixStream, order: &Order) -> Result<(), SandboxError> {
    make_namespaces(order)?;
    wire::die_with(above).map_err(|error| SandboxError::new("user namespace", error))?;
    let part = |error: io::Error| SandboxError::new("pid namespace", error);
    let (line, below) = UnixStream::pair().map_err(part)?;
    // After the namespace of PIDs is made, the next child is the first in it.
    let mut first = Command::new("/proc/self/exe")
        .args(&order.own)
        .arg(inside::ARGUMENT)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(below)))
        .spawn()
        .map_err(part)?;
    let watched = wire::send(&line, order).and_then(|()| watch(above, line));
    // Its end is the end of everything inside, and is over only when all of that is gone.
    end(&mut first);
    watched.map_err(part)
}

fn end(first: &mut Child) {
    let _ = first.kill();
    let _ = first.wait();
}

/// Passes reports on until one of the two sides is gone.
fn watch(above: &UnixStream, below: UnixStream) -> io::Result<()> {
    let mut below = BufReader::new(below);
    loop {
        let mut watched = [
            PollFd::new(above.as_fd(), PollFlags::empty()),
            PollFd::new(below.get_ref().as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [above_seen, below_seen] = watched.map(|one| one.any().unwrap_or(true));
        if above_seen {
            return Ok(());
        }
        if below_seen {
            match wire::receive::<Report>(&mut below)? {
                Some(report) => wire::send(above, &report)?,
                None => return Ok(()),
            }
        }
    }
}

/// Inside the first user namespace we are root, so that PID 1 keeps its powers when it is executed.
fn make_namespaces(order: &Order) -> Result<(), SandboxError> {
    let made = |part: &str, flag: CloneFlags| {
        unshare(flag).map_err(|error| SandboxError::new(part, error))
    };
    made("user namespace", CloneFlags::CLONE_NEWUSER)?;
    map("/proc/self", 0, order.user, order.group)
        .map_err(|error| SandboxError::new("user namespace", error))?;
    made("mount namespace", CloneFlags::CLONE_NEWNS)?;
    made("pid namespace", CloneFlags::CLONE_NEWPID)?;
    if order.sandbox.network == Network::None {
        made("network namespace", CloneFlags::CLONE_NEWNET)?;
    }
    made("IPC namespace", CloneFlags::CLONE_NEWIPC)?;
    made("UTS namespace", CloneFlags::CLONE_NEWUTS)
}

fn map(process: &str, inside: u32, user: u32, group: u32) -> io::Result<()> {
    fs::write(format!("{process}/setgroups"), "deny")?;
    fs::write(format!("{process}/uid_map"), format!("{inside} {user} 1"))?;
    fs::write(format!("{process}/gid_map"), format!("{inside} {group} 1"))
}
