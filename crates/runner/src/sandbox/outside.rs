//! The first of our processes: it creates the namespaces, starts PID 1 in them, passes on its reports, and ends it
//! when the launcher requests that or exits.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use super::channel::Channel;
use super::messages::{self, LaunchRequest, Report};
use super::{Level, Network, SandboxError, inside, loopback, unguarded};

pub(super) fn run() -> ExitCode {
    close_inherited();
    let Ok(Some((above, order, input))) = messages::receive_request() else {
        return ExitCode::from(messages::MISUSED);
    };
    let went = match order.sandbox.level {
        Level::Off => {
            open_listener(&above, &order).and_then(|()| unguarded::run(&above, &order, input))
        }
        Level::Partial | Level::Full => enclosed(&above, &order, input),
    };
    match went {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = above.send(&Report::Refused(error), None);
            ExitCode::FAILURE
        }
    }
}

/// Files that the launcher's parents left open are not for the program.
fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of them was the listing itself, and is closed already.
        let _ = nix::unistd::close(number);
    }
}

fn enclosed(
    above: &Channel,
    order: &LaunchRequest,
    input: Option<OwnedFd>,
) -> Result<(), SandboxError> {
    make_namespaces(order)?;
    if order.sandbox.network == Network::None {
        loopback::raise().map_err(|error| SandboxError::new("network namespace", error))?;
    }
    open_listener(above, order)?;
    messages::die_with(above).map_err(|error| SandboxError::new("user namespace", error))?;
    let part = |error: io::Error| SandboxError::new("pid namespace", error);
    let (line, below) = UnixStream::pair().map_err(part)?;
    // After the PID namespace is created, the next child is its PID 1.
    let mut first = Command::new("/proc/self/exe")
        .args(&order.own)
        .arg(inside::ARGUMENT)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(below)))
        .spawn()
        .map_err(part)?;
    let line = Channel::new(line);
    let told = line.send(order, input.as_ref().map(AsFd::as_fd));
    drop(input);
    let watched = told.and_then(|()| watch(above, line));
    // Its end is the end of everything inside, and is over only when all of that is gone.
    end(&mut first);
    watched.map_err(part)
}

/// Listens where the program can connect, and passes the listener up: connections are accepted outside, and the
/// program does not run before. In a private network, every port is free.
fn open_listener(above: &Channel, order: &LaunchRequest) -> Result<(), SandboxError> {
    let Some(port) = order.sandbox.listener_port else { return Ok(()) };
    let open = || -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        above.send(&Report::Listener(port), Some(listener.as_fd()))
    };
    open().map_err(|error| SandboxError::new("door", error))
}

fn end(first: &mut Child) {
    let _ = first.kill();
    let _ = first.wait();
}

/// Passes reports on until one of the two sides is gone.
fn watch(above: &Channel, mut below: Channel) -> io::Result<()> {
    loop {
        let mut watched = [
            PollFd::new(above.socket().as_fd(), PollFlags::empty()),
            PollFd::new(below.socket().as_fd(), PollFlags::POLLIN),
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
            match below.receive::<Report>()? {
                Some(report) => above.send(&report, None)?,
                None => return Ok(()),
            }
        }
    }
}

/// Inside the first user namespace we are root, so that PID 1 keeps its privileges when it is executed.
fn make_namespaces(order: &LaunchRequest) -> Result<(), SandboxError> {
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
