//! `kei-agent-runtime`: see `kei-agent-runtime help`.

use std::process::ExitCode;

use bailiwick_cli::kei::start_bailiwick;

fn main() -> ExitCode {
    start_bailiwick("kei-agent-runtime", std::env::args_os().skip(1))
}
