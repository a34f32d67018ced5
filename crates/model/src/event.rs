//! What happens in a run: one vocabulary for every agent program, append-only and numbered.
//!
//! An event says who saw it. What the agent program itself prints is one witness among others, and
//! not the one that is trusted: the gate, the model proxy and the files are asked as well.

use serde::{Deserialize, Serialize};

/// Something that happened, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the order of its run, from one; 0 until it is kept.
    #[serde(default)]
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Who saw it.
    pub seen_by: ReportedBy,
    /// The sub-agent that it is about; nothing for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: EventKind,
    /// The line that it was read from, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// Who saw something happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedBy {
    /// The agent program says so.
    Program,
    /// The gate was asked.
    Gate,
    /// It went through the model proxy.
    Proxy,
    /// The supervisor did or measured it.
    Supervisor,
    /// A person said so.
    Person,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventKind {
    /// The run went on to its next phase.
    Phase { phase: Phase },
    /// The agent program began, or took up, a conversation.
    Session {
        /// Its own name for the conversation.
        id: String,
        /// The model that it says it uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The gate has said that it is there.
    Announced,
    /// The model begins to answer.
    Turn {
        /// Which answer of this agent, from one.
        turn: u64,
    },
    /// The model says something.
    Text { text: String },
    /// The model thinks aloud.
    Thinking { text: String },
    /// The model asks for a tool.
    ToolCall {
        /// The model's name for the call.
        id: String,
        /// The tool, as the program calls it.
        tool: String,
        /// What it is given.
        input: serde_json::Value,
    },
    /// A tool has ended.
    ToolResult {
        /// The call.
        id: String,
        /// Whether the program says that it went well.
        ok: bool,
        /// What the model is shown.
        output: String,
    },
    /// The gate was asked about a call, and answered.
    Decision {
        /// The program's name for the call; nothing where it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The tool, in our vocabulary.
        tool: String,
        /// What it was about: the command, or the files.
        about: String,
        answer: Answer,
        /// The rule that decided; nothing where none objects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Why, and what may be done instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A rule objects to a call that runs all the same.
    Warning {
        rule: String,
        /// What it says.
        text: String,
        /// Whether the agent is told; otherwise only this record says it.
        told: bool,
    },
    /// The overseer of the agent is notified of a denial at once, as its role wants.
    Notification {
        /// What was denied, and why.
        text: String,
    },
    /// A check has looked at the agent's tree, between two of its calls.
    Check {
        /// The capability.
        check: String,
        tree: String,
        /// Whether it holds.
        ok: bool,
        /// What was measured; or why it does not hold, with the end of what was printed.
        found: String,
    },
    /// A file of the worktree is other than before.
    FileChange {
        /// Its path from the worktree's root.
        path: String,
        /// In what way.
        change: FileChange,
    },
    /// A command has ended.
    Command {
        command: String,
        /// How it ended; nothing where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<i32>,
    },
    /// A tool of an MCP server was used.
    Mcp {
        server: String,
        tool: String,
        /// Whether it went well.
        ok: bool,
    },
    /// Another agent was begun, or has ended, inside of this one.
    SubAgent {
        /// The program's name for it.
        id: String,
        /// What it is to do, or what it has said.
        text: String,
        /// Whether this is its end.
        ended: bool,
    },
    /// The model was paid for an answer.
    Usage(Usage),
    /// A person is asked, or has answered.
    Approval {
        /// Which question.
        id: String,
        about: String,
        /// The answer; nothing while it is awaited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
    /// A budget is nearly or wholly spent.
    Limit {
        /// Which one: `tokens`, `usd`, `turns`, `minutes`, `tool-calls`.
        limit: String,
        /// How much is spent, as people read it.
        used: String,
        /// Of how much.
        of: String,
        /// Whether nothing is left.
        spent: bool,
    },
    /// A person says something to the agent.
    Message { text: String },
    /// Something went wrong.
    Error { message: String },
    /// The agent program has ended, or was ended.
    Ended {
        how: ExitReason,
        /// In words.
        detail: String,
    },
    /// The program printed a line that says nothing we know.
    Other,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Its worktree is being made.
    Preparing,
    /// Whether the gate is heard is being tried out.
    Proving,
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
    /// By itself, and says that it is done.
    Completed,
    /// By itself, and says that something went wrong.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// Nothing was heard of it for too long, or its time was over.
    TimedOut,
    /// Its budget was spent; it can be taken up after a person raises it.
    BudgetExhausted,
    /// A limit may not have held: nothing of it can land.
    EnforcementLost,
    /// Its role ends a run at the first denial.
    Denied,
    /// The supervisor was killed, or the machine went down.
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
    /// It was made outside of the agent's scope, and is not part of its work.
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

/// What one answer of a model took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The model, as it names itself.
    pub model: String,
    /// Tokens that it read, without those it had kept.
    pub input: u64,
    /// Tokens that it wrote.
    pub output: u64,
    /// Tokens that it had kept, and read again.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens that it has kept for later.
    #[serde(default)]
    pub cache_write: u64,
    /// Whether some of it is an estimate: the answer did not say, or was cut short.
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
    /// The word that an event is kept and asked for by.
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
    /// The word in the record.
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
    fn the_word_of_an_event_is_the_one_that_it_is_written_with() {
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
                seen_by: ReportedBy::Program,
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
