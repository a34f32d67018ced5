//! `kei-ledger`: see `kei-ledger help`.

use std::process::ExitCode;

use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::ledger::LedgerTool;
use clap::Parser as _;

fn main() -> ExitCode {
    finish(LedgerTool::parse().run())
}
