//! A tool call in our form, from any CLI.

use serde::{Deserialize, Serialize};

use crate::tool::ToolName;

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The CLI's name of the tool.
    pub cli_tool_name: String,
    /// The tools of the vocabulary that it amounts to; a patch may write and edit.
    pub tools: Vec<ToolName>,
    /// The action.
    pub action: Action,
    /// The directory that it starts in.
    pub directory: Option<String>,
    /// Whether the CLI can type into a running program without asking.
    pub ungated_terminal_input: bool,
    /// The CLI's own id of the call.
    pub id: Option<String>,
    /// The sub-agent that makes the call.
    pub agent: Option<String>,
}

/// The action of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run a shell command.
    Shell(String),
    /// Type into a program that is running.
    TerminalInput,
    /// Touch these files.
    Files(Vec<Target>),
    /// Run a shell command and access these files: the arguments of an MCP tool.
    ShellAndFiles(String, Vec<Target>),
    /// Nothing that is known here.
    NoKnownEffect,
}

/// A file that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path as written.
    pub path: String,
    /// The kind of access.
    pub touch: Touch,
}

/// The access to a file that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// The file is read.
    Read,
    /// The file is created or changed.
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
