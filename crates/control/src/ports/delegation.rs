//! What the agent of a run may ask of us besides its model: to start other agents, and to speak to
//! them.

use serde_json::Value;

/// Answers the delegation tools for one caller, whom it knows.
pub trait Delegation: Send + Sync {
    /// Answers a call; the words of a refusal go to the agent. May take as long as the tool waits.
    fn call(&self, tool: &str, arguments: &Value) -> Result<Value, String>;
}
