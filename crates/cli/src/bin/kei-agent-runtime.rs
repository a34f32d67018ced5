//! `kei-agent-runtime`: see `kei-agent-runtime help`.

use std::process::ExitCode;

use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::agent_runtime::AgentRuntime;
use clap::Parser as _;

fn main() -> ExitCode {
    finish(AgentRuntime::parse().run())
}
