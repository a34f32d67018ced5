//! A tool call as we see it, from whichever CLI it comes.

use serde::{Deserialize, Serialize};

use crate::tool::ToolName;

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What the CLI calls the tool.
    pub native: String,
    /// The tools of the vocabulary that it amounts to; a patch may write and edit.
    pub tools: Vec<ToolName>,
    /// What it would do.
    pub action: Action,
    /// The directory that it starts in.
    pub directory: Option<String>,
    /// Whether the CLI can type into a running program without asking.
    pub ungated_terminal_input: bool,
    /// The CLI's own id of the call.
    pub id: Option<String>,
    /// The sub-agent that makes it.
    pub agent: Option<String>,
}

/// What a call would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run a shell command.
    Shell(String),
    /// Type into a program that is running.
    TerminalInput,
    /// Touch these files.
    Files(Vec<Target>),
    /// Run a shell command and touch these files: what a tool of an MCP server may be told.
    ShellAndFiles(String, Vec<Target>),
    /// Nothing that is known here.
    NoKnownEffect,
}

/// A file that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As it is written in the call.
    pub path: String,
    /// What happens to it.
    pub touch: Touch,
}

/// What happens to a file that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// It is looked at.
    Read,
    /// It is made or changed.
    Change,
    /// It is deleted.
    Delete,
}

/// The command line of an argument list, each word quoted where it must be.
pub fn command_line(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c))
    };
    let quoted = |word: &String| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
