//! What the agent of a run may ask of us besides its model: to start other agents, and to speak to
//! them.

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
    /// Answers a call; the words of a refusal go to the agent. May take as long as the tool waits, but
    /// not once `gone` says that nobody needs the answer any more.
    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        consent: Consent,
        gone: &AtomicBool,
    ) -> Result<Value, String>;
}
