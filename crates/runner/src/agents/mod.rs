//! The agent CLIs that Bailiwick supports.

pub mod adapter;
mod claude_code;
mod codex;
pub(crate) mod gate_setup;
mod gemini;
mod help;
pub mod interactive;
mod lines;
pub mod manifest;
mod objections;
mod opencode;
mod probe;
pub mod script;
mod texts;
mod tools;

pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use gemini::Gemini;
pub use interactive::{Interactive, Person, unattended};
pub use manifest::Manifest;
pub use opencode::OpenCode;
pub use probe::{Probed, on_path, probe, version};
pub use script::Script;

use adapter::Adapter;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::process::short_output;

/// An agent program: our name for it, and its program.
const KNOWN: [(&str, &str); 4] =
    [("claude-code", "claude"), ("codex", "codex"), ("gemini", "gemini"), ("opencode", "opencode")];

/// The names of those that need no manifest.
pub const NAMES: [&str; 5] = ["claude-code", "codex", "gemini", "opencode", "script"];

/// The adapter of this name, of those that need no manifest.
pub fn adapter(name: &str) -> Option<Box<dyn Adapter>> {
    let all: [Box<dyn Adapter>; 5] = [
        Box::new(ClaudeCode),
        Box::new(Codex),
        Box::new(Gemini),
        Box::new(OpenCode),
        Box::new(Script),
    ];
    all.into_iter().find(|adapter| adapter.name() == name)
}

/// An agent program that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundAgent {
    /// Our name for it.
    pub name: &'static str,
    /// Its path; `None` if it is not installed.
    pub path: Option<PathBuf>,
    /// Its version; `None` if it does not respond.
    pub version: Option<String>,
}

/// Looks for the supported agent CLIs on `path`, and reads the versions of those that exist.
///
/// They run with an empty environment and `home` as their home, so that nothing of the person's
/// is read or changed.
pub fn find(path: &std::ffi::OsStr, home: &Path) -> Vec<FoundAgent> {
    let look = |(name, program): (&'static str, &str)| {
        let found = on_path(path, program);
        let version = found.as_ref().and_then(|file| {
            let mut command = Command::new(file);
            command.arg("--version").env_clear().env("PATH", path).env("HOME", home);
            let output = short_output(command.current_dir(home), Duration::from_secs(20))?;
            output.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
        });
        FoundAgent { name, path: found, version }
    };
    KNOWN.into_iter().map(look).collect()
}
