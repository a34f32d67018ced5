//! `bailiwick-gate`: one payload on standard input, one answer.

use std::process::ExitCode;

fn main() -> ExitCode {
    bailiwick_gate::run(std::env::args_os().skip(1))
}
