//! Identities of agents and their roles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, Kind, ObjectRef, RecordedAccess, Resource, Subject};

/// The allowed lifetimes of a token in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<u64> = 600..=86_400;

/// The identity of a stack or a runner pool. It maps to a ServiceAccount of the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentServiceAccount {
    /// The namespace of the ServiceAccount. The default is `default`. With `runsOn: jobs`, it must be the namespace of the
    /// Job; `default` then stands for any.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name of the ServiceAccount.
    pub service_account_name: String,
    /// The owner of the identity. Only the owner may use it.
    pub owner: Owner,
    /// The repositories that a stack with this identity may work on, as globs. If empty, none.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The names of the runner pools that a stack with this identity may use. If empty, none.
    #[serde(default)]
    pub allowed_runner_pools: Vec<String>,
    /// The audience of its tokens. Required for `automountServiceAccountToken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_audience: Option<String>,
    /// The lifetime of its tokens in seconds, 600 to 86400. It must be as long as the `deadline` of a Job. The default is
    /// 3600.
    #[serde(default = "an_hour")]
    pub token_expiration_seconds: u64,
    /// The names of secrets for pulling images. With `runsOn: jobs`, in the namespace of the Job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secret_refs: Vec<String>,
    /// If true, the agent gets a token of the ServiceAccount in a file, whose path is in `IDENTITY_TOKEN_FILE`. Trusted
    /// runs of pools with `runsOn: jobs` only. The default is false.
    #[serde(default)]
    pub automount_service_account_token: bool,
}

fn default_namespace() -> String {
    super::DEFAULT_NAMESPACE.to_owned()
}

fn an_hour() -> u64 {
    3600
}

impl AgentServiceAccount {
    /// Whether its tokens are for somebody. Without an audience, the API server itself would accept them.
    pub fn has_audience(&self) -> bool {
        self.token_audience.as_ref().is_some_and(|audience| !audience.trim().is_empty())
    }
}

/// The owner of an identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// The kind of owner.
    pub kind: OwnerKind,
    /// The name of the owner.
    pub name: String,
}

/// The kind of owner of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A stack. Only that stack may use it.
    AgentStack,
    /// A runner pool. Only the runners of that pool may use it.
    RunnerPool,
    /// A repository. All stacks that work on it may use the identity.
    Repository,
    /// The organisation. All stacks and runner pools may use it.
    Organization,
}

/// The status of an identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentServiceAccountStatus {
    /// The ServiceAccount of the platform that it was synced to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_service_account: Option<String>,
    /// The conditions of the identity.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl Resource for AgentServiceAccount {
    const KIND: Kind = Kind::AgentServiceAccount;
    type Status = AgentServiceAccountStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if !super::is_object_name(&self.service_account_name) {
            faults.push(Fault::new("spec.serviceAccountName", "it must be the name of an object"));
        }
        if !TOKEN_LIFE.contains(&self.token_expiration_seconds) {
            let message = format!("it must be {} to {}", TOKEN_LIFE.start(), TOKEN_LIFE.end());
            faults.push(Fault::new("spec.tokenExpirationSeconds", message));
        }
        faults
    }
}

/// A binding of a role to a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRoleBinding {
    /// The subject that gets the role.
    pub subject: Subject,
    /// The scope in which the role applies.
    pub scope: BindingScope,
    /// The role.
    pub role_ref: RoleRef,
    /// Additional rules that are bound with the role. They count in the check for escalation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_rules: Vec<ResourceRule>,
    /// The name of the RoleBinding of the platform. If left out, the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_role_binding_name: Option<String>,
    /// What happens if the binding grants more than its author has.
    #[serde(default)]
    pub escalation_policy: EscalationPolicy,
}

/// The scope of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BindingScope {
    /// The kind of scope.
    pub kind: ScopeKind,
    /// The name of the namespace, repository or organisation. Required for `namespace` and `repository`, not allowed
    /// for `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The kind of scope of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    /// A namespace.
    Namespace,
    /// A repository.
    Repository,
    /// An organisation: the owner of its repositories. All of them if no name is given.
    Organization,
    /// Everything.
    Cluster,
}

/// A reference to a role of the platform or to a built-in template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleRef {
    /// The kind of role.
    pub kind: RoleRefKind,
    /// The name of the role.
    pub name: String,
}

/// The kind of role that a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RoleRefKind {
    /// A role of a namespace.
    Role,
    /// A role for the whole cluster.
    ClusterRole,
    /// A built-in template.
    RoleTemplate,
}

/// The verbs that are allowed on resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceRule {
    /// API groups; `*` for all.
    #[serde(default)]
    pub api_groups: Vec<String>,
    /// Resources in plural form; `*` for all.
    pub resources: Vec<String>,
    /// Verbs; `*` for all.
    pub verbs: Vec<String>,
}

/// What happens if a binding grants more than its author has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationPolicy {
    /// The binding is denied. This is the default.
    #[default]
    Deny,
    /// An admin must approve it.
    RequireAdminApproval,
    /// It is allowed for trusted runs if the person who applied the binding owns every file of the repository, by the
    /// CODEOWNERS file of its default branch. Only for the scope `repository`.
    AllowIfOwner,
}

/// The status of a role binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentRoleBindingStatus {
    /// The objects of the platform that it was synced to.
    pub synced_role_refs: Vec<ObjectRef>,
    /// What the API server of the cluster says of it, if an operator leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<RecordedAccess>,
    /// The conditions of the binding.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl Resource for AgentRoleBinding {
    const KIND: Kind = Kind::AgentRoleBinding;
    type Status = AgentRoleBindingStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let named = self.scope.name.as_ref().is_some_and(|name| !name.is_empty());
        match self.scope.kind {
            ScopeKind::Namespace | ScopeKind::Repository if !named => {
                faults.push(Fault::new("spec.scope.name", "say which one"));
            }
            ScopeKind::Cluster if named => {
                faults.push(Fault::new("spec.scope.name", "there is only one cluster"));
            }
            ScopeKind::Namespace
            | ScopeKind::Repository
            | ScopeKind::Organization
            | ScopeKind::Cluster => {}
        }
        if self.subject.name.is_empty() {
            faults.push(Fault::new("spec.subject.name", "say who"));
        }
        let by_owner = self.escalation_policy == EscalationPolicy::AllowIfOwner;
        if by_owner && self.scope.kind != ScopeKind::Repository {
            let message = "`allow-if-owner` needs the scope `repository`: CODEOWNERS says nothing about other scopes";
            faults.push(Fault::new("spec.escalationPolicy", message));
        }
        for rule in &self.resource_rules {
            if rule.resources.is_empty() || rule.verbs.is_empty() {
                faults.push(Fault::new("spec.resourceRules", "a rule names resources and verbs"));
            }
        }
        faults
    }
}
