//! `kei-agent-runtime`: see `kei-agent-runtime help`.

use std::process::ExitCode;

use bailiwick_cli::commands::sandbox_init;
use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::agent_runtime::AgentRuntime;
use clap::Parser as _;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        // Its checks start this program again, as the first of a sandbox.
        Some("sandbox-init") => sandbox_init::run(arguments),
        _ => finish(AgentRuntime::parse().run()),
    }
}
