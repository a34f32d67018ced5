//! Approvals: the decision of a person, and its effect.

use bailiwick_resources::{ActionType, ApprovalPhase, Moment, PatchCommit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// The digest of the action that the person saw. An approval of another digest does not count.
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

/// Exactly what an approval allows, and the state of its target now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPreview {
    /// The name of the approval.
    pub approval: String,
    /// The phase of the approval.
    pub phase: ApprovalPhase,
    /// The action that needs the approval.
    pub action: ActionType,
    /// The target, such as `owner/name#7` or `owner/name@refs/heads/x`.
    pub target: String,
    /// A description for people.
    pub summary: String,
    /// The name of the run.
    pub run: String,
    /// The name of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The agent that requests the approval.
    pub requested_by: String,
    /// The digest to approve.
    pub digest: String,
    /// When the request expires.
    pub expires_at: Moment,
    /// The state of the target that the approval is bound to, such as the head of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_state: Option<String>,
    /// The state of the target now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_now: Option<String>,
    /// Why the forge would refuse it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// What the forge says about the target besides, such as rules for a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why the state of the target is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The value that is sent to the forge, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// The commits of a push, the oldest first: what each says, who wrote it, and what it changes. None if they are
    /// too long to be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<PatchCommit>,
    /// The diff of a push, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}
