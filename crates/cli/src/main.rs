//! `bailiwick`: see `bailiwick help`.

use std::process::ExitCode;

use bailiwick_cli::output::finish;
use bailiwick_cli::{Bailiwick, kei, plumbing};

fn main() -> ExitCode {
    bailiwick_policy::shell::hide_contained_panics();
    plumbing::run()
        .or_else(kei::run)
        .unwrap_or_else(|| finish(Bailiwick::from_command_line().run()))
}
