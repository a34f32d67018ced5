//! An agent that was started by another one, or by a person through a tool of theirs.

use serde::{Deserialize, Serialize};

use crate::attempt::Allowance;
use crate::name::AgentId;

/// What is known of a run besides its ledger row because somebody delegated it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegate {
    pub run: AgentId,
    /// The run that started it; nothing if a person did.
    pub parent: Option<AgentId>,
    /// The root session that started it; nothing if an agent did.
    #[serde(default)]
    pub session: Option<String>,
    /// The repository that it works in, by its path; nothing in what was written before that was known.
    #[serde(default)]
    pub repository: Option<String>,
    /// How many are above it.
    pub depth: u32,
    /// How deep those below it may be, if anything limits that.
    pub deepest: Option<u32>,
    /// The template; empty where there is none.
    pub agent_type: String,
    /// The persona.
    pub agent_name: Option<String>,
    /// A note for people and for other agents.
    pub note: Option<String>,
    /// What it was told.
    pub message: String,
    /// Its model, if one was named.
    pub model: Option<String>,
    /// Its effort, if one was named.
    pub reasoning_effort: Option<String>,
    /// Which templates it may start, as globs.
    pub may_start: Vec<String>,
    /// What was reserved for it.
    pub reserved: Allowance,
    /// What of its own was given to those below it.
    pub given: Allowance,
    /// Whether it is just being started, or taken up again: what is reserved for it is not free.
    pub pending: bool,
    /// Whether it was closed: nobody speaks to it again.
    pub closed: bool,
    /// When it was started, in milliseconds since 1970.
    pub created_at: u64,
}
