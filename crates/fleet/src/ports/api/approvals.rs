//! Approvals: a person's answer, and what comes of it.

use bailiwick_resources::ApprovalPhase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The decision of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The action is approved.
    Approve,
    /// The action is rejected.
    Reject,
}

/// A decision on an approval. The person is taken from the token, not from the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionRequest {
    /// The decision.
    pub decision: Verdict,
    /// A comment.
    #[serde(default)]
    pub comment: String,
    /// Leave it empty. An approval is about one action: only its own target or digest may be named here.
    #[serde(default)]
    pub approved_action_subset: Vec<String>,
    /// The digest of the action that the person looked at. An approval of another digest does not count.
    pub expected_artifact_digest: String,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionAnswer {
    /// The name of the approval.
    pub approval: String,
    /// The phase of the approval.
    pub phase: ApprovalPhase,
    /// The write-back that was approved, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBackAnswer>,
}

/// A write-back that was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteBackAnswer {
    /// Whether the write-back was recorded and will be done.
    pub accepted: bool,
    /// The idempotency key. The write-back is done once per key.
    pub idempotency_key: String,
}
