//! The first program of a sandbox alone, so that this crate's tests need no other one.

use std::process::ExitCode;

fn main() -> ExitCode {
    bailiwick_runner::sandbox::init(std::env::args_os().skip(1))
}
