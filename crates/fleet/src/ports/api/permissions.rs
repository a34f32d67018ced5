//! Permissions: what a run would be allowed, and what it lacks.

use bailiwick_resources::{EventSource, KeysRef, MissingGrant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ActionReason;

/// What a permission review is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionQuestion {
    /// The stack.
    pub agent_stack: String,
    /// The repository.
    pub repository: String,
    /// The ref.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Where the event comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_kind: Option<String>,
    /// The pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// Whether a run would be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionDecision {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// If a person says yes.
    RequiresApproval,
}

/// What a run would be permitted, and what it lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionReview {
    /// Whether it would be admitted.
    pub decision: PermissionDecision,
    /// The identity it would run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_identity: Option<String>,
    /// The identity of its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_identity: Option<String>,
    /// Roles that it needs.
    pub required_roles: Vec<String>,
    /// Keys of secrets that it needs.
    pub required_secrets: Vec<KeysRef>,
    /// Keys of config maps that it needs.
    pub required_configs: Vec<KeysRef>,
    /// Grants that are wanting.
    pub missing_grants: Vec<MissingGrant>,
    /// What a person must be asked for.
    pub approval_requirements: Vec<String>,
    /// The wanting grants as documents, ready to be applied.
    pub yaml_preview: Vec<String>,
    /// Why, the worst first.
    pub reasons: Vec<ActionReason>,
    /// The digest by which an attempt is bound to it.
    pub snapshot_digest: String,
}
