//! `kei-capability`: see `kei-capability help`.

use std::process::ExitCode;

use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::capability::CapabilityTool;
use clap::Parser as _;

fn main() -> ExitCode {
    finish(CapabilityTool::parse().run())
}
