//! An attempt: one execution of a run by an agent program.

use serde::{Deserialize, Serialize};

use crate::event::{ExitReason, Phase};
use crate::name::AgentId;

/// One execution of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub run: AgentId,
    /// Which one, from one.
    pub number: u64,
    /// Our name for the agent program.
    pub cli: String,
    pub version: String,
    /// The model; empty where the program chooses.
    pub model: String,
    /// How it is paid for.
    pub login: String,
    /// How much of a sandbox held it.
    pub sandbox: String,
    /// The program's name for the conversation, by which it can be taken up again.
    pub session: Option<String>,
    /// How far it is.
    pub phase: Phase,
    /// How it ended; nothing while it runs.
    pub ending: Option<ExitReason>,
    /// The same in words.
    pub detail: String,
    /// What it ran out of, where that is why it ended.
    #[serde(skip)]
    pub exhausted: Option<Exhausted>,
    /// When it began, in milliseconds since 1970.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// What it has used.
    pub used: Used,
    /// What it may use.
    pub budget: Allowance,
}

/// What an attempt ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exhausted {
    /// Tokens of its budget.
    Tokens,
    /// Money of its budget.
    Usd,
    /// Turns of its budget.
    Turns,
    /// Minutes of its budget.
    Minutes,
    /// Tool calls of its budget.
    ToolCalls,
    /// Its budget is in money, and nothing says what its model costs.
    Price,
    /// The space or the files that it may add to the disk, or the disk itself.
    Disk,
}

/// What an attempt has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Tokens, in and out.
    pub tokens: u64,
    /// Millionths of a United States dollar; only where prices are known.
    pub micro_usd: u64,
    /// Answers of the model.
    pub turns: u64,
    /// Tool calls that the gate was asked about.
    pub tool_calls: u64,
    /// Those of them that were denied.
    pub denied: u64,
}

impl Used {
    /// What two attempts have used together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            turns: self.turns.saturating_add(other.turns),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            denied: self.denied.saturating_add(other.denied),
        }
    }
}

/// What a run may use, with all that it starts; nothing means as much as it likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allowance {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Millionths of a United States dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Answers of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Milliseconds on the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}
