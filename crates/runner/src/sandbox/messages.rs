//! Messages between the processes of a sandbox, over a socket that is the child's standard input.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::channel::Channel;
use super::{Sandbox, SandboxError};

/// The exit code of a sandbox process that was called wrongly or has no parent to report to.
pub(super) const MISUSED: u8 = 125;

/// The program to run, with its sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LaunchRequest {
    pub(super) sandbox: Sandbox,
    pub(super) argv: Vec<String>,
    /// The arguments that identify our process, in front of its own argument.
    pub(super) own: Vec<String>,
    /// The user and group that the program runs as.
    pub(super) user: u32,
    pub(super) group: u32,
    /// The program's input; files are passed beside the request.
    pub(super) input: Input,
    /// Whether a control group enforces the limits.
    pub(super) grouped: bool,
}

/// The input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Input {
    Nothing,
    Given,
    /// The terminal that it is to be controlled by.
    Terminal,
}

/// Reports to the parent process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The listener is open on this port; it is passed beside this message.
    Listener(u16),
    /// The program is about to start, under these limits.
    Confinement(Confinement),
    /// The program exited.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// All that it started together took more memory than this many bytes, and was ended.
    MemorySpent(u64),
    /// It did not start.
    Refused(SandboxError),
}

/// The limits of a program besides the namespaces: how each is enforced, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub landlock: Result<String, Inactive>,
    pub seccomp: Result<String, Inactive>,
    /// What limits the memory of all its processes together.
    pub memory: Result<String, Inactive>,
    /// What limits the number of its processes.
    pub processes: Result<String, Inactive>,
}

/// Why a limit is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(transparent)]
#[error("{0}")]
pub struct Inactive(String);

impl Inactive {
    pub(super) fn because(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

/// The channel to the parent process, its request, and the program's input; `None` if there is no request.
pub(super) fn receive_request() -> io::Result<Option<(Channel, LaunchRequest, Option<OwnedFd>)>> {
    let mut above = Channel::above()?;
    die_with(&above)?;
    let Some(order) = above.receive::<LaunchRequest>()? else { return Ok(None) };
    let input = match order.input {
        Input::Nothing => None,
        Input::Given | Input::Terminal => {
            let given = above.file();
            Some(given.ok_or_else(|| io::Error::other("what the program reads did not come"))?)
        }
    };
    Ok(Some((above, order, input)))
}

/// From now on this process is killed when the one above ends; an error if that has ended already.
///
/// A change of credentials resets it, so it is set again after each.
pub(super) fn die_with(above: &Channel) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if hung_up(above, PollTimeout::ZERO)? {
        return Err(io::Error::other("the process above has ended"));
    }
    Ok(())
}

/// Whether the other side is gone; waits up to `timeout` for that.
pub(super) fn hung_up(line: &Channel, timeout: PollTimeout) -> io::Result<bool> {
    let mut watched = [PollFd::new(line.socket().as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    match poll(&mut watched, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(watched.iter().any(|one| one.revents().is_some_and(|seen| seen.intersects(gone))))
}
