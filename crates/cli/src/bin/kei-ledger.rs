//! `kei-ledger`: see `kei-ledger help`.

use std::process::ExitCode;

use bailiwick_cli::kei::start_bailiwick;

fn main() -> ExitCode {
    start_bailiwick("kei-ledger", std::env::args_os().skip(1))
}
