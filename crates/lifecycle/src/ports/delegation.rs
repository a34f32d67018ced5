//! What an agent may request besides its model: to start other agents and send them messages.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

/// The consent of a person to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// They let exactly this call happen, this once.
    Given,
    /// Nobody was asked, or another call was meant.
    Absent,
}

/// Answers the delegation tools for one caller.
pub trait Delegation: Send + Sync {
    /// Answers a call; a refusal is a message for the agent. It may take as long as the tool waits, but should stop
    /// once `cancelled` is set, because the caller has gone.
    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        consent: Consent,
        cancelled: &AtomicBool,
    ) -> Result<Value, String>;
}
