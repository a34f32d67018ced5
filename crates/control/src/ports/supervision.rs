//! What a supervisor needs of others: where events are kept, and who judges calls.

use bailiwick_model::Event;
use bailiwick_policy::Decision;
use bailiwick_policy::protocol::Question;
use bailiwick_policy::record::KeptCall;
use serde_json::Value;

use super::StoreError;

/// Keeps the events of one run for good.
pub trait Events: Send {
    /// Keeps these, in this order, and gives each its number. What comes back without an error is kept.
    fn keep(&mut self, events: &mut [Event]) -> Result<(), StoreError>;
}

/// Judges tool calls: looks up what must be known, decides by the policy, and keeps the decision.
pub trait Judge: Send + Sync {
    /// What is answered. Whatever goes wrong is a denial.
    fn judge(&self, question: &Question) -> Judgement;
}

/// The answer to a call, and what the call was.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The answer.
    pub decision: Decision,
    /// The call as it is kept: without contents, without secrets.
    pub call: KeptCall,
    /// What the tool is given, as the program says it; for comparing with what the model asked for.
    pub input: Value,
    /// What a tool of ours is told, as people read it, without secrets; nothing for other tools.
    pub words: Option<String>,
}
