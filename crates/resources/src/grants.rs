//! Grants: who may use which keys of a secret or a config map, for what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, EventSource, Fault, Globs, KeysRef, Kind, Resource, Subject};

/// A permission to use keys of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSecretGrant {
    /// The subject that gets the permission.
    pub subject: Subject,
    /// The secret and its keys.
    pub secret_ref: KeysRef,
    /// The purpose of the secret. The grant applies to this purpose only.
    pub purpose: SecretPurpose,
    /// The repositories, as globs. If empty, the grant permits nothing; with `deny: true` it then applies everywhere.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The refs, as globs. If empty, all refs; untrusted ones also need `allowUntrusted`.
    #[serde(default, skip_serializing_if = "Globs::is_empty")]
    pub allowed_refs: Globs,
    /// The event sources. If empty, all sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_trigger_sources: Vec<EventSource>,
    /// If true, work on forks and other untrusted refs may use it, if the stack allows it too. The default is false.
    #[serde(default)]
    pub allow_untrusted: bool,
    /// How the agent receives the secret.
    #[serde(default)]
    pub mount_policy: SecretMount,
    /// Whether an approval is needed before it is used.
    #[serde(default)]
    pub required_approval: RequiredApproval,
    /// The maximum age of the value. If left out, there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_policy: Option<RotationPolicy>,
    /// If true, the grant denies instead of permitting. A denial overrides all other grants.
    #[serde(default)]
    pub deny: bool,
}

/// The purpose of a secret.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SecretPurpose {
    /// The key of the model provider.
    ModelProviderToken,
    /// Access to repositories.
    GitCredential,
    /// An MCP server.
    McpServer,
    /// A tool.
    Tool,
    /// A skill.
    Skill,
    /// The signatures of webhooks.
    WebhookSigning,
    /// Pulling container images.
    ImagePull,
    /// A cache.
    Cache,
    /// A deployment.
    Deployment,
}

/// How an agent receives a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecretMount {
    /// In an environment variable.
    Env,
    /// In a file.
    File,
    /// In a file, like `file`.
    ProjectedVolume,
    /// Never. The supervisor uses it for the agent outside of the sandbox. This is the default.
    #[default]
    NeverMountPassByReference,
}

/// Whether an approval is needed before a secret is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequiredApproval {
    /// No approval is needed. This is the default.
    #[default]
    Never,
    /// An approval is needed on untrusted refs.
    OnUntrustedRef,
    /// An approval is always needed.
    Always,
}

/// The maximum age of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotationPolicy {
    /// The maximum age in days, at least 1. An older value cannot be used until it is set again.
    pub max_age_days: u32,
}

/// The status of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GrantStatus {
    /// The conditions of the grant.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

impl Resource for AgentSecretGrant {
    const KIND: Kind = Kind::AgentSecretGrant;
    type Status = GrantStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = keys("spec.secretRef", &self.secret_ref);
        if self.rotation_policy.is_some_and(|policy| policy.max_age_days == 0) {
            faults.push(Fault::new("spec.rotationPolicy.maxAgeDays", "it must be at least 1"));
        }
        faults
    }
}

/// A permission to use keys of a config map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentConfigGrant {
    /// The subject that gets the permission.
    pub subject: Subject,
    /// The config map and its keys.
    pub config_map_ref: KeysRef,
    /// The purpose of the config map. The grant applies to this purpose only.
    pub purpose: ConfigPurpose,
    /// The repositories, as globs. If empty, the grant permits nothing; with `deny: true` it then applies everywhere.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The refs, as globs. If empty, all refs.
    #[serde(default, skip_serializing_if = "Globs::is_empty")]
    pub allowed_refs: Globs,
    /// The event sources. If empty, all sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_trigger_sources: Vec<EventSource>,
    /// How the agent receives the config map.
    #[serde(default)]
    pub mount_policy: ConfigMount,
    /// If true, the grant denies instead of permitting. A denial overrides all other grants.
    #[serde(default)]
    pub deny: bool,
}

/// The purpose of a config map.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigPurpose {
    /// A tool.
    ToolConfig,
    /// A skill.
    SkillConfig,
    /// An MCP server.
    McpConfig,
    /// The configuration of a stack.
    RunnerConfig,
    /// A prompt template.
    PromptTemplate,
    /// The policy of a repository.
    RepositoryPolicy,
}

/// How an agent receives a config map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigMount {
    /// In an environment variable. This is the default.
    #[default]
    Env,
    /// In a file.
    File,
    /// In a file, like `file`.
    ProjectedVolume,
    /// The values are not passed to the agent.
    ApiRead,
}

impl Resource for AgentConfigGrant {
    const KIND: Kind = Kind::AgentConfigGrant;
    type Status = GrantStatus;

    fn faults(&self) -> Vec<Fault> {
        keys("spec.configMapRef", &self.config_map_ref)
    }
}

fn keys(field: &str, reference: &KeysRef) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !super::is_object_name(&reference.name) {
        faults.push(Fault::new(format!("{field}.name"), "it must be the name of an object"));
    }
    if reference.keys.is_empty() || reference.keys.iter().any(String::is_empty) {
        faults.push(Fault::new(format!("{field}.keys"), "name the keys; there is no word for all"));
    }
    faults
}
