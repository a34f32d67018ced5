//! Starting the program that all of it is about, with the environment that it is given and no other.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::unistd::Pid;

use super::SandboxError;
use super::wire::Order;

/// Starts it in a process group of its own; it reads nothing.
pub(super) fn start(order: &Order) -> Result<Pid, SandboxError> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err(SandboxError::new("the program", "there is none"));
    };
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(order.sandbox.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.sandbox.directory)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| SandboxError::new(program, error))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}
