//! `bailiwick sandbox-init`: this program as the first of a sandbox. Nobody calls it by hand: it reads
//! what to run from a socket, so it is not among the commands that help shows.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the process that the launcher of the sandbox requests.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    bailiwick_runner::sandbox::init(arguments)
}
