//! An agent that was started by another one, or by a person through a tool of theirs.

use serde::{Deserialize, Serialize};

use crate::attempt::Allowance;
use crate::name::AgentId;

/// What is known of a delegated run besides its ledger row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegate {
    pub run: AgentId,
    /// The run that started it; none if a person did.
    pub parent: Option<AgentId>,
    /// The root session that started it; none if an agent did.
    #[serde(default)]
    pub session: Option<String>,
    /// The path of its repository; none in old records.
    #[serde(default)]
    pub repository: Option<String>,
    /// The number of agents above it.
    pub depth: u32,
    /// How deep those below it may be, if anything limits that.
    pub deepest: Option<u32>,
    /// The template; empty if there is none.
    pub agent_type: String,
    /// The persona.
    pub agent_name: Option<String>,
    /// A note for people and for other agents.
    pub note: Option<String>,
    /// The message that it received.
    pub message: String,
    /// Its model, if one was named.
    pub model: Option<String>,
    /// Its effort, if one was named.
    pub reasoning_effort: Option<String>,
    /// Which templates it may start, as globs.
    pub may_start: Vec<String>,
    /// The budget that was reserved for it.
    pub reserved: Allowance,
    /// The part of its budget that was given to its sub-agents.
    pub given: Allowance,
    /// Whether it is being started or resumed: its reserved budget is in use.
    pub pending: bool,
    /// Whether it was closed and receives no more messages.
    pub closed: bool,
    /// When it was started, in milliseconds since 1970.
    pub created_at: u64,
}
