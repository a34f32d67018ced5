//! `kei-capability`: see `kei-capability help`.
//!
//! `check` runs before every tool call, so it starts nothing else; the other verbs are `bailiwick`'s.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use bailiwick_cli::kei::check;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let texts: Vec<Option<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    match texts.as_slice() {
        [Some("check"), Some(name)] if !name.starts_with('-') => check::run(name),
        _ => hand_over(&arguments),
    }
}

fn hand_over(arguments: &[OsString]) -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("bailiwick"));
    let program = beside.filter(|file| file.is_file()).unwrap_or(PathBuf::from("bailiwick"));
    let error = Command::new(&program).arg("kei-capability").args(arguments).exec();
    bailiwick_gate::say(&format!("{} cannot be started: {error}", program.display()));
    ExitCode::from(2)
}
