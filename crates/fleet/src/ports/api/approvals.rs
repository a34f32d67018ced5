//! Approvals: a person's answer, and what comes of it.

use bailiwick_resources::ApprovalPhase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

/// A person's answer to an approval. Who they are is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionRequest {
    /// Yes or no.
    pub decision: Verdict,
    /// What they say to it.
    #[serde(default)]
    pub comment: String,
    /// Only these of what was asked; all of it when empty.
    #[serde(default)]
    pub approved_action_subset: Vec<String>,
    /// The digest of what they looked at: a yes to anything else is no yes.
    pub expected_artifact_digest: String,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionAnswer {
    /// The approval.
    pub approval: String,
    /// How it stands now.
    pub phase: ApprovalPhase,
    /// What will be written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBackAnswer>,
}

/// A write-back that an approval has set free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteBackAnswer {
    /// Whether it was kept and will be done.
    pub accepted: bool,
    /// By which it is done once.
    pub idempotency_key: String,
}
