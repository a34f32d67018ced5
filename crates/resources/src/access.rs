//! What the API server of a cluster says of a binding. The operator records it; nobody declares it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentRoleBinding, Moment, RoleRefKind, SubjectKind};

/// The name of the ConfigMap that the leading operator of a cluster writes. Where it is, a cluster decides about roles.
pub const OPERATOR_FENCE: &str = "bailiwick-operator";

/// The answer of the API server of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessAnswer {
    /// The account has everything that the binding gives.
    Allowed,
    /// It lacks something.
    Missing,
    /// The API server could not say, or was not asked.
    Unknown,
}

/// What the operator reports of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessReport {
    /// The answer of the API server.
    pub answer: AccessAnswer,
    /// The digest of the binding that it is about.
    pub spec_digest: String,
    /// The ServiceAccount that it is about, as the identity names it: `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What the account lacks, as `get pods/log`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Objects that would add it, as YAML for `kubectl apply`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The reason of an unknown answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A report, and when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedAccess {
    /// The report of the operator.
    pub report: AccessReport,
    /// When it was recorded, by the clock of the server.
    pub at: Moment,
}

impl AgentRoleBinding {
    /// The name of the AgentServiceAccount of its subject.
    pub fn identity(&self) -> Option<&str> {
        match self.subject.kind {
            SubjectKind::ServiceAccount => Some(&self.subject.name),
            SubjectKind::User
            | SubjectKind::Group
            | SubjectKind::Team
            | SubjectKind::AgentStack
            | SubjectKind::RunnerPool
            | SubjectKind::Tool
            | SubjectKind::Skill
            | SubjectKind::McpServer => self.subject.service_account_ref.as_deref(),
        }
    }

    /// Whether it gives rights of a platform. A template alone gives rights on the kinds of the control plane.
    pub fn is_about_platform(&self) -> bool {
        match self.role_ref.kind {
            RoleRefKind::Role | RoleRefKind::ClusterRole => true,
            RoleRefKind::RoleTemplate => !self.resource_rules.is_empty(),
        }
    }
}
