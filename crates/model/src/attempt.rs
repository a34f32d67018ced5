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
    /// The level of sandboxing that was in force.
    pub sandbox: String,
    /// The ID of the conversation in the agent CLI, with which it can be resumed.
    pub session: Option<String>,
    /// The current phase.
    pub phase: Phase,
    /// How it ended; none while it runs.
    pub ending: Option<ExitReason>,
    /// The end as a sentence.
    pub detail: String,
    /// The limit that ended it, if one did.
    #[serde(skip)]
    pub exhausted: Option<Exhausted>,
    /// When it began, in milliseconds since 1970.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// The usage so far.
    pub used: Used,
    /// The limits.
    pub budget: Allowance,
}

/// The budget that an attempt exhausted.
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
    /// The budget is in money, and the price of the model is not known.
    Price,
    /// The space or the files that it may add to the disk, or the disk itself.
    Disk,
}

/// The usage of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Tokens, in and out.
    pub tokens: u64,
    /// Millionths of a United States dollar; only where prices are known.
    pub micro_usd: u64,
    /// Answers of the model.
    pub turns: u64,
    /// Tool calls that the gate decided.
    pub tool_calls: u64,
    /// Those of them that were denied.
    pub denied: u64,
}

impl Used {
    /// The usage of two attempts together.
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

/// The limits of a run with everything it starts; none means unlimited.
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
