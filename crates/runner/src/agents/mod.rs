//! The agent programs that Bailiwick knows.

pub mod adapter;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::process::first_words;

/// An agent program: our name for it, and its program.
const KNOWN: [(&str, &str); 4] =
    [("claude-code", "claude"), ("codex", "codex"), ("gemini", "gemini"), ("opencode", "opencode")];

/// An agent program that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundAgent {
    /// Our name for it.
    pub name: &'static str,
    /// Where it is; nothing if it is not installed.
    pub path: Option<PathBuf>,
    /// What it says of its version; nothing if it does not answer.
    pub version: Option<String>,
}

/// Looks for the known agent programs on `path`, and asks those that are there for their version.
///
/// They run with an empty environment and `home` as their home, so that nothing of the person's
/// is read or changed.
pub fn find(path: &std::ffi::OsStr, home: &Path) -> Vec<FoundAgent> {
    let look = |(name, program): (&'static str, &str)| {
        let found = std::env::split_paths(path).map(|place| place.join(program));
        let found = found.into_iter().find(|file| is_program(file));
        let version = found.as_ref().and_then(|file| {
            let mut command = Command::new(file);
            command.arg("--version").env_clear().env("PATH", path).env("HOME", home);
            let said = first_words(command.current_dir(home), Duration::from_secs(20))?;
            said.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
        });
        FoundAgent { name, path: found, version }
    };
    KNOWN.into_iter().map(look).collect()
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
