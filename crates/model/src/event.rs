//! The events of a run: one vocabulary for all agent CLIs, append-only and numbered.
//!
//! Each event names the component that reported it. The output of the agent CLI is one source among others, and not the trusted one:
//! the gate, the model proxy and the files are.

use serde::{Deserialize, Serialize};

/// A stored event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the run, starting at 1; 0 until it is stored.
    #[serde(default)]
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The component that reported it.
    #[serde(rename = "seen_by")]
    pub reported_by: ReportedBy,
    /// The sub-agent that it is about; none for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: EventKind,
    /// The line that it was read from, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// The component or person that reported an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedBy {
    /// The agent CLI printed it.
    Program,
    /// The gate decided it.
    Gate,
    /// The model proxy saw it.
    Proxy,
    /// The supervisor did or measured it.
    Supervisor,
    /// A person did it.
    Person,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventKind {
    /// The run entered its next phase.
    Phase { phase: Phase },
    /// The agent program began, or took up, a conversation.
    Session {
        /// Its own name for the conversation.
        id: String,
        /// The model, as the CLI reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The gate is connected.
    Announced,
    /// The model begins to answer.
    Turn {
        /// Which answer of this agent, from one.
        turn: u64,
    },
    /// The model wrote text.
    Text { text: String },
    /// The model thinks aloud.
    Thinking { text: String },
    /// The model requests a tool call.
    ToolCall {
        /// The model's name for the call.
        id: String,
        /// The tool, as the program calls it.
        tool: String,
        /// Its input.
        input: serde_json::Value,
    },
    /// A tool has ended.
    ToolResult {
        /// The call.
        id: String,
        /// Whether it succeeded, as the CLI reports it.
        ok: bool,
        /// The result that the model receives.
        output: String,
    },
    /// The gate decided a call.
    Decision {
        /// The CLI's ID of the call; none if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The tool, in our vocabulary.
        tool: String,
        /// The subject: the command or the files.
        about: String,
        answer: Answer,
        /// The rule that decided; none if no rule objects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The reason, with the alternative.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A rule objects to a call that runs all the same.
    Warning {
        rule: String,
        /// What it says.
        text: String,
        /// Whether the agent receives it; otherwise it is only recorded.
        told: bool,
    },
    /// The orchestrator of the agent is notified of a denial, because its role requires it.
    Notification {
        /// What was denied, and why.
        text: String,
    },
    /// A check ran on the agent's tree between two of its calls.
    Check {
        /// The capability.
        check: String,
        tree: String,
        /// Whether it passed.
        ok: bool,
        /// The measurement, or the reason for the failure with the end of the output.
        found: String,
    },
    /// A file of the worktree is other than before.
    FileChange {
        /// Its path from the worktree's root.
        path: String,
        change: FileChange,
    },
    /// A command has ended.
    Command {
        command: String,
        /// Its exit code; none if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
    },
    /// A tool of an MCP server was used.
    Mcp {
        server: String,
        tool: String,
        /// Whether it succeeded.
        ok: bool,
    },
    /// Another agent was begun, or has ended, inside of this one.
    SubAgent {
        /// The program's name for it.
        id: String,
        /// Its task or its answer.
        text: String,
        /// Whether this is its end.
        ended: bool,
    },
    /// The model was paid for an answer.
    Usage(Usage),
    /// A person was asked, or has answered.
    Approval {
        /// Which question.
        id: String,
        about: String,
        /// The answer; none while the question is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
    /// A budget is nearly or wholly spent.
    Limit {
        /// Which one: `tokens`, `usd`, `turns`, `minutes`, `tool-calls`.
        limit: String,
        /// The usage, as people read it.
        used: String,
        /// The limit.
        of: String,
        /// Whether the limit is reached.
        spent: bool,
    },
    /// A person sent the agent a message.
    Message { text: String },
    /// An error occurred.
    Error { message: String },
    /// The agent program has ended, or was ended.
    Ended {
        how: ExitReason,
        /// The details, as a sentence.
        detail: String,
    },
    /// The CLI printed a line that is not understood.
    Other,
}

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The worktree is being created.
    Preparing,
    /// The self-test checks that the program obeys the gate.
    #[serde(rename = "proving")]
    SelfTest,
    /// The agent runs.
    Working,
    /// Its work is being checked.
    Verifying,
    Over,
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitReason {
    /// The agent finished and reported success.
    Completed,
    /// The agent finished and reported a failure.
    Failed,
    /// A person stopped it.
    Stopped,
    /// The idle timeout or the time limit was exceeded.
    TimedOut,
    /// The budget is exhausted; the run can be resumed after a person raises it.
    BudgetExhausted,
    /// A limit may not have been in force: nothing of it can land.
    EnforcementLost,
    /// Its role ends a run at the first denial.
    Denied,
    /// The supervisor was killed, or the machine stopped.
    CutOff,
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It may run.
    Allow,
    /// It may not.
    Deny,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// It is new.
    Added,
    /// Its contents or mode are other.
    Changed,
    /// It is gone.
    Removed,
    /// It was created outside the scope, and is not part of the work.
    #[serde(rename = "left-out")]
    LeftOut,
}

impl FileChange {
    /// Its name, as events have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::LeftOut => "left-out",
        }
    }
}

/// The usage of one model response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The model, as it names itself.
    pub model: String,
    /// Input tokens that were not cached.
    pub input: u64,
    /// Tokens that it wrote.
    pub output: u64,
    /// Input tokens that were read from the cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens that were written to the cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Whether a part is an estimate, because the response did not report it or was cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// All tokens, in and out.
    pub fn tokens(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl EventKind {
    /// The word by which an event is stored and queried.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Phase { .. } => "phase",
            Self::Session { .. } => "session",
            Self::Announced => "announced",
            Self::Turn { .. } => "turn",
            Self::Text { .. } => "text",
            Self::Thinking { .. } => "thinking",
            Self::ToolCall { .. } => "tool-call",
            Self::ToolResult { .. } => "tool-result",
            Self::Decision { .. } => "decision",
            Self::Warning { .. } => "warning",
            Self::Notification { .. } => "notification",
            Self::Check { .. } => "check",
            Self::FileChange { .. } => "file-change",
            Self::Command { .. } => "command",
            Self::Mcp { .. } => "mcp",
            Self::SubAgent { .. } => "sub-agent",
            Self::Usage(_) => "usage",
            Self::Approval { .. } => "approval",
            Self::Limit { .. } => "limit",
            Self::Message { .. } => "message",
            Self::Error { .. } => "error",
            Self::Ended { .. } => "ended",
            Self::Other => "other",
        }
    }
}

impl ExitReason {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::TimedOut => "timed-out",
            Self::BudgetExhausted => "budget-exhausted",
            Self::EnforcementLost => "enforcement-lost",
            Self::Denied => "denied",
            Self::CutOff => "cut-off",
        }
    }
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_an_event_equals_its_serialized_kind() {
        let all = [
            EventKind::Phase { phase: Phase::Working },
            EventKind::Text { text: "hello".to_owned() },
            EventKind::Usage(Usage::default()),
            EventKind::FileChange { path: "a".to_owned(), change: FileChange::Added },
            EventKind::Check {
                check: "quality::own".to_owned(),
                tree: "1".to_owned(),
                ok: false,
                found: "no".to_owned(),
            },
            EventKind::Warning { rule: "a::b".to_owned(), text: "no".to_owned(), told: true },
            EventKind::Notification { text: "denied".to_owned() },
            EventKind::Ended { how: ExitReason::TimedOut, detail: String::new() },
            EventKind::Other,
        ];
        for what in all {
            let event = Event {
                number: 1,
                at: 2,
                reported_by: ReportedBy::Program,
                agent: None,
                what: what.clone(),
                raw: Some("{}".to_owned()),
            };
            let text = serde_json::to_value(&event).unwrap();
            assert_eq!(text["kind"], what.kind());
            assert_eq!(serde_json::from_value::<Event>(text).unwrap(), event);
        }
    }
}
