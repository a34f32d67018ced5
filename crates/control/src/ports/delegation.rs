//! What the agent of a run may ask of us besides its model: to start other agents, and to speak to
//! them.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

/// Answers the delegation tools for one caller, whom it knows.
pub trait Delegation: Send + Sync {
    /// Answers a call; the words of a refusal go to the agent. May take as long as the tool waits, but
    /// not once `gone` says that nobody needs the answer any more.
    fn call(&self, tool: &str, arguments: &Value, gone: &AtomicBool) -> Result<Value, String>;
}
