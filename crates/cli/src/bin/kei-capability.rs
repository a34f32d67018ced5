//! `kei-capability`: see `kei-capability help`.
//!
//! `check` runs before every tool call, so it starts nothing else; the other verbs are `bailiwick`'s.

use std::ffi::OsString;
use std::process::ExitCode;

use bailiwick_cli::kei::{check, start_bailiwick};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let texts: Vec<Option<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    match texts.as_slice() {
        [Some("check"), Some(name)] if !name.starts_with('-') => check::run(name),
        _ => start_bailiwick("kei-capability", arguments),
    }
}
