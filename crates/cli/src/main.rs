//! `bailiwick`: see `bailiwick help`.

use std::process::ExitCode;

use bailiwick_cli::Bailiwick;
use bailiwick_cli::failure::finish;
use clap::Parser as _;

fn main() -> ExitCode {
    finish(Bailiwick::parse().run())
}
