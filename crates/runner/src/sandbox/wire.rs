//! What the processes of a sandbox tell each other: one JSON text a line, over a socket that is the
//! standard input of the one below.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Sandbox, SandboxError};

/// The exit code of a process of ours that was called wrongly or has nobody to report to.
pub(super) const MISUSED: u8 = 125;

/// What is to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) sandbox: Sandbox,
    pub(super) argv: Vec<String>,
    /// How a process of ours is told what it is, in front of its own argument.
    pub(super) own: Vec<String>,
    /// The user and group that the program runs as.
    pub(super) user: u32,
    pub(super) group: u32,
}

/// What is said on the way up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The program is about to start, held by this.
    Held(Held),
    /// The program ended by itself.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was not started.
    Refused(SandboxError),
}

/// What holds a program beside the namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Landlock, or why not.
    pub landlock: Result<String, String>,
    /// Seccomp, or why not.
    pub seccomp: Result<String, String>,
}

/// The standard input of this process as the line to the one above.
pub(super) fn line_above() -> io::Result<UnixStream> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(UnixStream::from(input))
}

/// Sends one line.
pub(super) fn send(mut line: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    line.write_all(&text)
}

/// Receives one line; nothing at the end.
pub(super) fn receive<T: DeserializeOwned>(
    line: &mut BufReader<UnixStream>,
) -> io::Result<Option<T>> {
    let mut text = String::new();
    if line.read_line(&mut text)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&text)?))
}

/// The line to whoever started this process, and what it says is to be done; nothing if it says nothing.
pub(super) fn receive_order() -> io::Result<Option<(UnixStream, Order)>> {
    let above = line_above()?;
    die_with(&above)?;
    let mut above = BufReader::new(above);
    let order = receive(&mut above)?;
    Ok(order.map(|order| (above.into_inner(), order)))
}

/// From now on this process is killed when the one above ends; an error if that has ended already.
///
/// A change of credentials makes the kernel forget it, so it is said again after each.
pub(super) fn die_with(above: &UnixStream) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if hung_up(above, PollTimeout::ZERO)? {
        return Err(io::Error::other("the process above has ended"));
    }
    Ok(())
}

/// Whether the other side is gone; waits for that as long as `patience`.
pub(super) fn hung_up(line: &UnixStream, patience: PollTimeout) -> io::Result<bool> {
    let mut watched = [PollFd::new(line.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    match poll(&mut watched, patience) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(watched.iter().any(|one| one.revents().is_some_and(|seen| seen.intersects(gone))))
}
