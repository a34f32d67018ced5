//! Identities of agents, and the roles they are given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, Kind, ObjectRef, Resource, Subject};

/// The least and the longest life of a token, in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<u64> = 600..=86_400;

/// An identity for stacks and pools, wrapped around the platform's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentServiceAccount {
    /// The namespace of the platform's identity.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Its name.
    pub service_account_name: String,
    /// Who it belongs to.
    pub owner: Owner,
    /// The repositories it may work on, as globs; none when empty.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The pools it may run in; none when empty.
    #[serde(default)]
    pub allowed_runner_pools: Vec<String>,
    /// Who its tokens are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_audience: Option<String>,
    /// How long a token lives.
    #[serde(default = "an_hour")]
    pub token_expiration_seconds: u64,
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secret_refs: Vec<String>,
    /// Whether a token is mounted without being asked for.
    #[serde(default)]
    pub automount_service_account_token: bool,
}

fn default_namespace() -> String {
    super::DEFAULT_NAMESPACE.to_owned()
}

fn an_hour() -> u64 {
    3600
}

/// Who an identity belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its name.
    pub name: String,
}

/// What an identity belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A stack.
    AgentStack,
    /// A pool.
    RunnerPool,
    /// A repository.
    Repository,
    /// The organisation.
    Organization,
}

/// What the control plane knows of an identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentServiceAccountStatus {
    /// The platform's identity that stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_service_account: Option<String>,
    /// Why.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
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

/// Which role a subject has, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRoleBinding {
    /// Who gets it.
    pub subject: Subject,
    /// Where it holds.
    pub scope: BindingScope,
    /// The role.
    pub role_ref: RoleRef,
    /// What the role must allow, for a role that is made from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_rules: Vec<ResourceRule>,
    /// The platform's binding; made from this one's name when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_role_binding_name: Option<String>,
    /// What happens if it gives more than its author has.
    #[serde(default)]
    pub escalation_policy: EscalationPolicy,
}

/// Where a binding holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BindingScope {
    /// How far.
    pub kind: ScopeKind,
    /// Which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How far a binding reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    /// A namespace.
    Namespace,
    /// A repository.
    Repository,
    /// The organisation.
    Organization,
    /// Everything.
    Cluster,
}

/// A role of the platform, or a template of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleRef {
    /// Which of the two.
    pub kind: RoleRefKind,
    /// Its name.
    pub name: String,
}

/// What a role reference points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RoleRefKind {
    /// A role of a namespace.
    Role,
    /// A role of everything.
    ClusterRole,
    /// A template that ships with us.
    RoleTemplate,
}

/// Verbs on resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceRule {
    /// Groups; `*` for all.
    #[serde(default)]
    pub api_groups: Vec<String>,
    /// Plurals; `*` for all.
    pub resources: Vec<String>,
    /// Verbs; `*` for all.
    pub verbs: Vec<String>,
}

/// What happens if a binding gives more than its author has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationPolicy {
    /// It is denied.
    #[default]
    Deny,
    /// An admin is asked.
    RequireAdminApproval,
    /// It is allowed to the owner of the scope. Owners are not recorded, so it is refused.
    AllowIfOwner,
}

/// What the control plane knows of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentRoleBindingStatus {
    /// The platform's objects that stand for it.
    pub synced_role_refs: Vec<ObjectRef>,
    /// Why.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
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
        if let Some(nothing) = self.subject.gets_nothing() {
            faults.push(Fault::new("spec.subject", nothing));
        }
        if self.escalation_policy == EscalationPolicy::AllowIfOwner {
            let message = "nobody keeps who owns what: write `deny` or `require-admin-approval`";
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
