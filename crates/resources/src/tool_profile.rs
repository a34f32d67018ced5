//! Which native tools, commands, files and hosts an agent may use.

use std::collections::BTreeMap;

use bailiwick_model::AuditLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, KeysRef, Kind, NoStatus, Resource};

/// A bundle of limits; it compiles into the same policy as everything else, by intersection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentToolProfile {
    /// Which kinds of tools there are; what is not named is off.
    #[serde(default)]
    pub native_tools: BTreeMap<ToolClass, bool>,
    /// Commands that may be run; when given, no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_commands: Option<Vec<String>>,
    /// Commands that may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// What may be done to files.
    pub filesystem_policy: FilesystemPolicy,
    /// Which hosts may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// Who is asked, by kind of tool.
    #[serde(default)]
    pub approval_policy_by_tool: BTreeMap<ToolClass, ToolApproval>,
    /// Secrets that the tools need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Config that the tools need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// How much of each call is written down.
    #[serde(default)]
    pub audit_level: AuditLevel,
}

/// A kind of tool that agent programs bring.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ToolClass {
    /// Commands.
    Shell,
    /// Reading and writing files.
    Filesystem,
    /// Fetching pages and searching.
    Network,
    /// A browser.
    Browser,
    /// Starting other agents.
    Subagents,
    /// MCP servers.
    Mcp,
}

/// What may be done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemPolicy {
    /// Reads only.
    ReadOnly,
    /// Writes what the repository tracks or could track.
    RepoWrite,
    /// Writes anything in the worktree that the role allows.
    WorkspaceWrite,
    /// Sees no files.
    NoFs,
}

/// Which hosts may be reached besides the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// The rule.
    #[serde(alias = "default")]
    pub mode: NetworkMode,
    /// The hosts of an allowlist.
    pub allow_hosts: Vec<String>,
}

/// The rule of a network policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// None.
    #[default]
    Deny,
    /// Those that are named.
    Allowlist,
    /// The repository's own.
    RepositoryHostOnly,
    /// Any, once a person has said so.
    UnrestrictedWithApproval,
}

/// Who is asked for a call of a kind of tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolApproval {
    /// Nobody.
    Allow,
    /// Nobody, as long as it stays in the workspace; what leaves it is denied.
    AllowWorkspace,
    /// A person, always.
    Prompt,
    /// A person, where the rules deny or the call is privileged.
    PromptOnDeniedOrPrivileged,
    /// It is denied.
    Deny,
}

impl Resource for AgentToolProfile {
    const KIND: Kind = Kind::AgentToolProfile;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let Some(network) = &self.network_policy {
            let named = !network.allow_hosts.is_empty();
            if named != (network.mode == NetworkMode::Allowlist) {
                let message = "hosts belong to mode `allowlist`, and it needs at least one";
                faults.push(Fault::new("spec.networkPolicy.allowHosts", message));
            }
        }
        faults
    }
}
