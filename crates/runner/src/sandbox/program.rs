//! Starting the program that all of it is about, with the environment that it is given and no other.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::ioctl_tiocsctty;

use super::SandboxError;
use super::messages::{Input, LaunchRequest};

/// Starts it in a new process group. At a terminal, it is in ours, which is the foreground group; we ignore signals
/// from there.
pub(super) fn start(order: &LaunchRequest, input: Option<OwnedFd>) -> Result<Pid, SandboxError> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err(SandboxError::new("the program", "there is none"));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(order.sandbox.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.sandbox.directory)
        .stdin(input.map_or_else(Stdio::null, Stdio::from));
    match order.input {
        Input::Nothing | Input::Given => drop(command.process_group(0)),
        Input::Terminal => {}
    }
    let child = command.spawn().map_err(|error| SandboxError::new(program, error))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

/// A program that stops itself at a terminal, as if a shell would continue it, is continued: there is no such shell.
pub(super) fn go_on(order: &LaunchRequest, child: Pid) {
    match order.input {
        Input::Terminal => drop(kill(child, Signal::SIGCONT)),
        Input::Nothing | Input::Given => {}
    }
}

/// Makes the terminal that the program reads from, if any, the controlling one of this session, which this process
/// must lead.
pub(super) fn take_terminal(
    order: &LaunchRequest,
    input: Option<&OwnedFd>,
) -> Result<(), SandboxError> {
    let (Input::Terminal, Some(terminal)) = (order.input, input) else { return Ok(()) };
    ioctl_tiocsctty(terminal.as_fd()).map_err(|error| SandboxError::new("terminal", error))
}
