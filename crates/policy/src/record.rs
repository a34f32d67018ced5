//! One line per decision: the call, the facts, the decision. Replay reads it.

use serde::{Deserialize, Serialize};

use crate::call::{Action, Call, Target, Touch};
use crate::decide::decide;
use crate::decision::Decision;
use crate::dialects::Dialect;
use crate::facts::Facts;
use crate::policy::Policy;
use crate::tool::{Tool, ToolName};

/// The version of the record's format.
pub const FORMAT: u32 = 1;

/// A decision as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The digest of the policy.
    pub policy: String,
    /// The dialect of the call.
    pub dialect: Dialect,
    /// The call.
    pub call: RecordedCall,
    /// The facts.
    pub facts: Facts,
    /// The decision.
    pub decision: Decision,
}

/// A call as it is stored: without file contents and secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The CLI's name of the tool.
    #[serde(rename = "native")]
    pub cli_tool_name: String,
    /// The tools of the vocabulary.
    pub tools: Vec<String>,
    /// The shell command, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Why it could not be read, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Whether it types into a running program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub types: bool,
    /// The files that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedTarget>,
    /// The directory that it starts in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Whether the CLI can type into programs unseen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "types_unseen")]
    pub ungated_terminal_input: bool,
    /// The CLI's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The sub-agent that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// A file that a call names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTarget {
    pub path: String,
    /// The kind of access.
    pub touch: Touch,
}

impl Record {
    /// The decision that this policy gives with what was known.
    pub fn decide_again(&self, policy: &Policy) -> Decision {
        match &self.call.unreadable {
            Some(reason) => Decision::undecidable(reason.clone()),
            None => decide(policy, &self.call.call(), &self.facts),
        }
    }
}

impl RecordedCall {
    /// The stored part of a call.
    pub fn of(call: &Call) -> Self {
        let kept = |targets: &[Target]| {
            let kept =
                |target: &Target| RecordedTarget { path: target.path.clone(), touch: target.touch };
            targets.iter().map(kept).collect()
        };
        let redacted = |command: &String| Some(bailiwick_model::secret::redacted(command));
        let (command, files, types) = match &call.action {
            Action::Shell(command) => (redacted(command), Vec::new(), false),
            Action::ShellAndFiles(command, targets) => (redacted(command), kept(targets), false),
            Action::TerminalInput => (None, Vec::new(), true),
            Action::Files(targets) => (None, kept(targets), false),
            Action::NoKnownEffect => (None, Vec::new(), false),
        };
        Self {
            cli_tool_name: call.cli_tool_name.clone(),
            tools: call.tools.iter().map(ToString::to_string).collect(),
            command,
            unreadable: None,
            types,
            files,
            directory: call.directory.clone(),
            ungated_terminal_input: call.ungated_terminal_input,
            id: call.id.clone(),
            agent: call.agent.clone(),
        }
    }

    /// The record of an unreadable call: why it was denied.
    pub fn unreadable(reason: &str) -> Self {
        Self {
            cli_tool_name: String::new(),
            tools: Vec::new(),
            command: None,
            unreadable: Some(reason.to_owned()),
            types: false,
            files: Vec::new(),
            directory: None,
            ungated_terminal_input: false,
            id: None,
            agent: None,
        }
    }

    /// The call again.
    pub fn call(&self) -> Call {
        let target = |file: &RecordedTarget| Target { path: file.path.clone(), touch: file.touch };
        let files = || self.files.iter().map(target).collect();
        let action = match (&self.command, self.types) {
            (Some(command), _) if self.files.is_empty() => Action::Shell(command.clone()),
            (Some(command), _) => Action::ShellAndFiles(command.clone(), files()),
            (None, true) => Action::TerminalInput,
            (None, false) if self.files.is_empty() => Action::NoKnownEffect,
            (None, false) => Action::Files(files()),
        };
        let tool = |name: &String| match Tool::named(name) {
            Some(tool) => ToolName::of(tool),
            None => ToolName::from_record(name),
        };
        Call {
            cli_tool_name: self.cli_tool_name.clone(),
            tools: self.tools.iter().map(tool).collect(),
            action,
            directory: self.directory.clone(),
            ungated_terminal_input: self.ungated_terminal_input,
            id: self.id.clone(),
            agent: self.agent.clone(),
        }
    }
}
