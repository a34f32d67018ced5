//! `kei-agent-runtime`: see `kei-agent-runtime help`.

use std::process::ExitCode;

use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::agent_runtime::AgentRuntime;
use bailiwick_cli::plumbing;
use clap::Parser as _;

fn main() -> ExitCode {
    // Its checks and agents start this program again, as a part of a sandbox.
    plumbing::run().unwrap_or_else(|| finish(AgentRuntime::parse().run()))
}
