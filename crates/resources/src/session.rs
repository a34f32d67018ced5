//! A conversation with an agent program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, Resource};

/// A session of an agent program. It can be viewed and, if the program supports it, resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSession {
    /// The ID of the session in the agent program.
    #[serde(rename = "agentMuxSessionId")]
    pub agent_session_id: String,
    /// The name of the run.
    pub dispatch_run: String,
    /// The adapter of the agent program.
    pub adapter: String,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
}

/// The status of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSessionStatus {
    /// Whether the agent program is running.
    pub live: bool,
    /// Whether the session can be resumed. Always false while the program is running.
    pub resumable: bool,
    /// The cursor of its last event.
    pub event_cursor: String,
    /// The time of its last event.
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
