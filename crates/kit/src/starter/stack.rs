//! The result of a detector: one build tool in one directory.

use std::fmt;

use super::tool::Tool;

/// One build tool in one directory: how it was recognised and the commands to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    pub tool: Tool,
    /// Where; empty for the root of the repository.
    pub directory: String,
    /// The file that decided, relative to the directory.
    pub evidence: String,
    /// Commands that install what the project needs, to run in the directory.
    pub setup: Vec<String>,
    /// Commands that check the project, to run in the directory.
    pub commands: Vec<String>,
    /// Programs that these commands start.
    pub programs: Vec<&'static str>,
    /// Notes for people.
    pub notes: Vec<Note>,
    /// What the tool creates in the directory, which git should ignore.
    pub(super) artefacts: &'static [&'static str],
    /// Whether its commands reach the projects of the same ecosystem below its directory.
    pub(super) covers_below: bool,
    /// Whether it must be installed even below a workspace that would cover it.
    pub(super) standalone: bool,
}

/// A note about a recognised stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The file cannot be parsed; it was recognised by its name alone.
    Malformed {
        /// From the root of the repository.
        file: String,
    },
    /// The tool creates this, and no .gitignore has it.
    NotIgnored {
        /// From the root of the repository.
        path: String,
    },
    /// The tool writes this lock file, which is not in the repository.
    NoLockFile {
        /// From the root of the repository.
        file: String,
    },
    /// The example task does not include all directories with stacks.
    MoreStacks {
        /// The number of directories that were left out.
        count: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { file } => {
                write!(out, "{file} cannot be parsed: check the commands in the example task")
            }
            Self::NotIgnored { path } => write!(
                out,
                "{path} is in no .gitignore: add it, or it counts as a change by the agent"
            ),
            Self::NoLockFile { file } => {
                write!(
                    out,
                    "{file} does not exist: commit one, so that every run installs the same"
                )
            }
            Self::MoreStacks { count } => {
                write!(out, "{count} more directories have a build of their own: add what you need")
            }
        }
    }
}

impl Stack {
    pub(super) fn new(tool: Tool, directory: &str, evidence: &str) -> Self {
        Self {
            tool,
            directory: directory.to_owned(),
            evidence: evidence.to_owned(),
            setup: Vec::new(),
            commands: Vec::new(),
            programs: Vec::new(),
            notes: Vec::new(),
            artefacts: &[],
            covers_below: true,
            standalone: false,
        }
    }

    /// Whether `other`, which is below, needs no commands.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let below = self.directory.is_empty()
            || other.directory.strip_prefix(&self.directory).is_some_and(|r| r.starts_with('/'));
        let same = self.tool.ecosystem() == other.tool.ecosystem();
        below && same && self.covers_below && !other.standalone
    }

    /// A command of this stack as it is run from the root of the repository.
    pub(super) fn in_root(&self, command: &str) -> String {
        if self.directory.is_empty() {
            command.to_owned()
        } else {
            format!("cd {} && {command}", quote(&self.directory))
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, evidence, directory, .. } = self;
        match directory.as_str() {
            "" => write!(out, "{tool} ({evidence})"),
            _ => write!(out, "{tool} in {directory} ({evidence})"),
        }
    }
}

/// Quotes a word for a POSIX shell.
pub(super) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+:,=%".contains(c);
    if word.starts_with('-') {
        return quote(&format!("./{word}"));
    }
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
