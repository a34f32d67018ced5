//! The rules that a person has set in their agent's program about the text of shell commands.
//!
//! Once a hook changes a command, the CLI matches its rules against the changed text. So ours applies them to the
//! original text first. A rule that denies or asks counts as matching wherever its words occur; an invalid one
//! objects to every command. Rules that allow are left to the CLI, which then asks.

mod codex;
mod gemini;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::agent::Agent;

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// Its effect.
    pub kind: Kind,
    /// Its file.
    pub file: PathBuf,
    /// The rule, or what is wrong with it.
    pub rule: String,
}

/// The effect of a rule on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It may not run.
    Forbids,
    /// A person must approve it first.
    Asks,
    /// It cannot be applied here.
    Unreadable,
}

impl fmt::Display for Objection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, rule) = (self.file.display(), &self.rule);
        match self.kind {
            Kind::Forbids => write!(out, "a rule of the person forbids it: {rule} in {file}"),
            Kind::Asks => write!(
                out,
                "a rule of the person has them asked first, which cannot be done for a command in the sandbox: \
                 {rule} in {file}; leave it to them"
            ),
            Kind::Unreadable => write!(
                out,
                "a rule of the person about commands cannot be applied to a command in the sandbox: {rule} in \
                 {file}; tell them, they can install with --no-sandbox"
            ),
        }
    }
}

/// The directories with rules.
#[derive(Debug, Clone)]
pub struct Around {
    /// The directory of the person's settings.
    pub home: PathBuf,
    /// The repository.
    pub root: Option<PathBuf>,
    /// The directory of the whole machine's settings.
    pub system: PathBuf,
}

/// The rule that objects to a command.
pub fn objection(
    agent: Agent,
    around: &Around,
    command: &str,
    input: &Map<String, Value>,
) -> Option<Objection> {
    match agent {
        Agent::Codex => codex::objection(around, command),
        Agent::Gemini => gemini::objection(around, command, input),
        // Their CLIs match the original text.
        Agent::Claude | Agent::OpenCode => None,
    }
}

/// The files of a directory with this ending, in order; none if it is not there.
fn files_in(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, Objection> {
    let unread = |error: std::io::Error| Objection {
        kind: Kind::Unreadable,
        file: directory.to_owned(),
        rule: error.to_string(),
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a file; nothing if it is not there.
fn text_of(file: &Path) -> Result<Option<String>, Objection> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(file, error.to_string())),
    }
}

fn unreadable(file: &Path, why: impl Into<String>) -> Objection {
    Objection { kind: Kind::Unreadable, file: file.to_owned(), rule: why.into() }
}
