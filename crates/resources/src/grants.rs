//! Who may use which keys of a secret or a config map, for what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, EventSource, Fault, Globs, KeysRef, Kind, Resource, Subject};

/// A permission to use keys of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSecretGrant {
    /// Who.
    pub subject: Subject,
    /// Which keys of which secret.
    pub secret_ref: KeysRef,
    /// For what.
    pub purpose: SecretPurpose,
    /// The repositories, as globs; none when empty.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The refs, as globs; every trusted one when empty.
    #[serde(default, skip_serializing_if = "Globs::is_empty")]
    pub allowed_refs: Globs,
    /// The sources of events; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_trigger_sources: Vec<EventSource>,
    /// Whether forks and other untrusted refs may use it.
    #[serde(default)]
    pub allow_untrusted: bool,
    /// How it arrives.
    #[serde(default)]
    pub mount_policy: SecretMount,
    /// Whether a person is asked.
    #[serde(default)]
    pub required_approval: RequiredApproval,
    /// How old the value may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_policy: Option<RotationPolicy>,
    /// Forbids instead of permitting: an explicit no wins over every other grant.
    #[serde(default)]
    pub deny: bool,
}

/// What a secret is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SecretPurpose {
    /// Paying the model.
    ModelProviderToken,
    /// Reading and writing repositories.
    GitCredential,
    /// An MCP server.
    McpServer,
    /// A tool.
    Tool,
    /// A skill.
    Skill,
    /// Checking webhooks.
    WebhookSigning,
    /// Pulling images.
    ImagePull,
    /// A cache.
    Cache,
    /// A deployment.
    Deployment,
}

/// How a secret arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecretMount {
    /// In the environment.
    Env,
    /// In a file.
    File,
    /// In a file that follows its rotation.
    ProjectedVolume,
    /// Never: the supervisor uses it on the agent's behalf, outside of the sandbox.
    #[default]
    NeverMountPassByReference,
}

/// Whether a person is asked before a secret is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequiredApproval {
    /// Nobody.
    #[default]
    Never,
    /// Where the ref is not trusted.
    OnUntrustedRef,
    /// Always.
    Always,
}

/// How old a secret may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotationPolicy {
    /// In days.
    pub max_age_days: u32,
}

/// What the control plane knows of a grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GrantStatus {
    /// Why.
    pub conditions: Vec<Condition>,
    /// The generation that this speaks of.
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
        faults.extend(subject(&self.subject, self.deny));
        faults
    }
}

/// A permission to use keys of a config map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentConfigGrant {
    /// Who.
    pub subject: Subject,
    /// Which keys of which config map.
    pub config_map_ref: KeysRef,
    /// For what.
    pub purpose: ConfigPurpose,
    /// The repositories, as globs; none when empty.
    #[serde(default)]
    pub allowed_repositories: Vec<String>,
    /// The refs, as globs; every one when empty.
    #[serde(default, skip_serializing_if = "Globs::is_empty")]
    pub allowed_refs: Globs,
    /// The sources of events; every one when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_trigger_sources: Vec<EventSource>,
    /// How it arrives.
    #[serde(default)]
    pub mount_policy: ConfigMount,
    /// Forbids instead of permitting.
    #[serde(default)]
    pub deny: bool,
}

/// What a config map is for.
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
    /// A pool of runners.
    RunnerConfig,
    /// A template of a prompt.
    PromptTemplate,
    /// The policy of a repository.
    RepositoryPolicy,
}

/// How a config map arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigMount {
    /// In the environment.
    #[default]
    Env,
    /// In a file.
    File,
    /// In a file that follows its changes.
    ProjectedVolume,
    /// When it is asked for.
    ApiRead,
}

impl Resource for AgentConfigGrant {
    const KIND: Kind = Kind::AgentConfigGrant;
    type Status = GrantStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = keys("spec.configMapRef", &self.config_map_ref);
        faults.extend(subject(&self.subject, self.deny));
        faults
    }
}

fn subject(subject: &Subject, deny: bool) -> Option<Fault> {
    let nothing = subject.gets_nothing().filter(|_| !deny)?;
    Some(Fault::new("spec.subject", nothing))
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
