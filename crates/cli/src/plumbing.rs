//! The internal commands of our program: the first process of a sandbox, the gate, the scripted agent. Each starts
//! nothing that it does not need.

use std::ffi::OsString;
use std::process::ExitCode;

use bailiwick_engine::delegating::stdio;

use crate::commands::{sandbox_init, script_agent};
use crate::hooks::{hooked_call, sandboxed_shell};

/// Does it, if the arguments ask for it.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first: Option<OsString> = arguments.next();
    match first.as_ref().and_then(|first| first.to_str()) {
        // The gate answers before every tool call: nothing else is started for it.
        Some("gate") => Some(bailiwick_gate::run(arguments)),
        // Namespaces can be created only while there is one thread.
        Some("sandbox-init") => Some(sandbox_init::run(arguments)),
        // Inside of a sandbox, where nothing of the person's is to be seen.
        Some("mcp") => forwarding(arguments),
        // Runs for every shell command of an agent that a person has started.
        Some("sandboxed-shell") => Some(sandboxed_shell::run(arguments)),
        // Answers before and after every call of an agent whose commands are changed.
        Some("hooked-call") => Some(hooked_call::run(arguments)),
        Some("script-agent") => Some(script_agent::run(arguments)),
        Some(_) | None => None,
    }
}

/// The MCP server that forwards calls, if the arguments name it.
fn forwarding(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let socket = match (arguments.next(), arguments.next()) {
        (Some(option), Some(socket)) if option == "--socket" => socket,
        _ => return None,
    };
    Some(match stdio::serve(stdio::forwarding(socket.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}
