//! A conversation with an agent program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, Resource};

/// A conversation that can be looked at and, where the program can, taken up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSession {
    /// The program's name for it.
    pub agent_mux_session_id: String,
    /// The run.
    pub dispatch_run: String,
    /// The adapter.
    pub adapter: String,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
}

/// What the control plane knows of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSessionStatus {
    /// Whether its program runs.
    pub live: bool,
    /// Whether it can be taken up again.
    pub resumable: bool,
    /// Its last event.
    pub event_cursor: String,
    /// When something last happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Moment>,
}

impl Resource for AgentSession {
    const KIND: Kind = Kind::AgentSession;
    type Status = AgentSessionStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
