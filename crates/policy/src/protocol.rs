//! The protocol between a gate inside a sandbox and the supervisor outside.
//!
//! One question and one answer per connection: a line of JSON each. The gate passes the payload on unchanged; a
//! missing or invalid answer is a denial.

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::dialects::Dialect;

/// The message for a model when a hook could not run the gate: Codex lets a call run whose hook exits with 2 and
/// prints nothing. It also marks the hook commands that we install.
pub const GATE_COULD_NOT_RUN: &str = "bailiwick: the gate could not run, so the call is denied";

/// The version of this protocol; any other is refused by both sides.
pub const VERSION: u32 = 1;

/// Why a protocol line is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("protocol version {0} is not supported")]
    Version(u32),
}

/// The request of a gate: decide this call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// [`VERSION`].
    pub version: u32,
    /// The dialect of the payload.
    pub dialect: Dialect,
    /// The working directory of the gate.
    pub directory: String,
    /// The unchanged payload.
    pub payload: String,
    /// Whether the gate only announces itself: at the start of a session, without a call.
    #[serde(default)]
    pub announces: bool,
}

/// The reply of the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateReply {
    /// [`VERSION`].
    pub version: u32,
    /// The answer.
    pub decision: Decision,
}

impl GateRequest {
    /// The encoded line.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads what was sent.
    pub fn read(line: &[u8]) -> Result<Self, ProtocolError> {
        let question: Self = serde_json::from_slice(line)?;
        checked(question.version).map(|()| question)
    }
}

impl GateReply {
    /// An answer of this version.
    pub fn new(decision: Decision) -> Self {
        Self { version: VERSION, decision }
    }

    /// The encoded line.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads what was sent.
    pub fn read(line: &[u8]) -> Result<Self, ProtocolError> {
        let reply: Self = serde_json::from_slice(line)?;
        checked(reply.version).map(|()| reply)
    }
}

fn checked(version: u32) -> Result<(), ProtocolError> {
    match version {
        VERSION => Ok(()),
        other => Err(ProtocolError::Version(other)),
    }
}
