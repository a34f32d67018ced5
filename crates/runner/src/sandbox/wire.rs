//! Messages between the processes of a sandbox, over a socket that is the child's standard input.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::{Sandbox, SandboxError};

/// The exit code of a sandbox process that was called wrongly or has no parent to report to.
pub(super) const MISUSED: u8 = 125;

/// The program to run, with its sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LaunchRequest {
    pub(super) sandbox: Sandbox,
    pub(super) argv: Vec<String>,
    /// How a process of ours is told what it is, in front of its own argument.
    pub(super) own: Vec<String>,
    /// The user and group that the program runs as.
    pub(super) user: u32,
    pub(super) group: u32,
    /// What the program reads; files are passed beside the request.
    pub(super) input: Input,
    /// What a control group bounds already.
    pub(super) grouped: bool,
}

/// What a program reads.
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
    Door(u16),
    /// The program is about to start, under these limits.
    Confinement(Confinement),
    /// The program ended by itself.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// All that it started together took more memory than this many bytes, and was ended.
    MemorySpent(u64),
    /// It did not start.
    Refused(SandboxError),
}

/// The limits of a program in addition to the namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Landlock, or why it does not apply.
    pub landlock: Result<String, String>,
    /// Seccomp, or why it does not apply.
    pub seccomp: Result<String, String>,
    /// What bounds the memory of all that it starts together, or why nothing does.
    pub memory: Result<String, String>,
    /// What bounds how many processes it has at once, or why nothing does.
    pub processes: Result<String, String>,
}

/// The line to the parent process, what it says is to be done, and what the program reads; `None` if it says
/// nothing.
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
/// A change of credentials makes the kernel forget it, so it is said again after each.
pub(super) fn die_with(above: &Channel) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if hung_up(above, PollTimeout::ZERO)? {
        return Err(io::Error::other("the process above has ended"));
    }
    Ok(())
}

/// Whether the other side is gone; waits for that as long as `timeout`.
pub(super) fn hung_up(line: &Channel, timeout: PollTimeout) -> io::Result<bool> {
    let mut watched = [PollFd::new(line.socket().as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    match poll(&mut watched, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(watched.iter().any(|one| one.revents().is_some_and(|seen| seen.intersects(gone))))
}
