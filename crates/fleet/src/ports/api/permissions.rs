//! Permissions: what a run would be allowed, and what it lacks.

use bailiwick_resources::{EventSource, KeysRef, MissingGrant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ActionReason;

/// The run whose permissions are reviewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionQuestion {
    /// The name of the AgentStack.
    pub agent_stack: String,
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The ref. If left out, the default branch.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The source of the event. If left out, `manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// The kind of task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_kind: Option<String>,
    /// The name of the RunnerPool. If left out, the pool of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// The account that causes the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// Whether a run would be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionDecision {
    /// It would be admitted.
    Allowed,
    /// It would be denied.
    Denied,
    /// It would be admitted after an approval.
    RequiresApproval,
}

/// The permissions of a run, and what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionReview {
    /// Whether the run would be admitted.
    pub decision: PermissionDecision,
    /// The identity that it would run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_identity: Option<String>,
    /// The identity of its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_identity: Option<String>,
    /// The roles that it needs.
    pub required_roles: Vec<String>,
    /// The keys of secrets that it needs.
    pub required_secrets: Vec<KeysRef>,
    /// The keys of config maps that it needs.
    pub required_configs: Vec<KeysRef>,
    /// Missing grants.
    pub missing_grants: Vec<MissingGrant>,
    /// The approvals that are needed.
    pub approval_requirements: Vec<String>,
    /// The missing grants as YAML documents that can be applied.
    pub yaml_preview: Vec<String>,
    /// The reasons for the decision, the most severe first.
    pub reasons: Vec<ActionReason>,
    /// The digest of the review. Attempts are bound to it.
    pub snapshot_digest: String,
}
