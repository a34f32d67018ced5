//! Which native tools, commands, files and hosts an agent may use.

use std::collections::BTreeMap;

use bailiwick_model::AuditLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DefinitionStatus, Fault, KeysRef, Kind, Resource};

/// Limits on tools, commands, files and hosts. Other limits apply as well: a call must be allowed by all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentToolProfile {
    /// The tool classes that are switched on. A class that is not named is off.
    #[serde(default)]
    pub native_tools: BTreeMap<ToolClass, bool>,
    /// Commands that may be run; all others are denied. If left out, the profile sets no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_commands: Option<Vec<String>>,
    /// Commands that may not be run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// The access to files.
    pub filesystem_policy: FilesystemPolicy,
    /// The hosts that may be reached. Required if `network` or `browser` is on. If left out, none besides the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// The approvals that are needed, by tool class. If a class is left out, none.
    #[serde(default)]
    pub approval_policy_by_tool: BTreeMap<ToolClass, ToolApproval>,
    /// Keys of secrets that the tools need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps that the tools need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// How much of each call is recorded. The default is `full-redacted-transcript`.
    #[serde(default)]
    pub audit_level: AuditLevel,
}

/// A class of tools of an agent program.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ToolClass {
    /// Shell commands.
    Shell,
    /// Reading and writing files.
    Filesystem,
    /// Web fetches and web searches.
    Network,
    /// A browser.
    Browser,
    /// Starting sub-agents.
    Subagents,
    /// Tools of MCP servers.
    Mcp,
}

/// The access to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemPolicy {
    /// Files can only be read.
    ReadOnly,
    /// Files that git does not ignore can be written.
    RepoWrite,
    /// All files in the worktree that the role allows can be written.
    WorkspaceWrite,
    /// No access to files or to a shell.
    NoFs,
}

/// The hosts that may be reached, besides the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// The mode. The default is `deny`.
    #[serde(alias = "default")]
    pub mode: NetworkMode,
    /// The hosts, such as `example.org` or `example.org:8443`. Only with the mode `allowlist`. The default port is 443.
    pub allow_hosts: Vec<String>,
}

/// The mode of a network policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// No hosts. This is the default.
    #[default]
    Deny,
    /// Only the hosts in `allowHosts`.
    Allowlist,
    /// Only the host of the repository.
    RepositoryHostOnly,
    /// Any host, with an approval. Not supported: it is refused.
    UnrestrictedWithApproval,
}

/// Whether a call of a tool class needs an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolApproval {
    /// No approval is needed.
    Allow,
    /// No approval is needed. Writes outside the workspace are denied, as with every other mode.
    AllowWorkspace,
    /// Every call needs an approval.
    Prompt,
    /// Privileged calls need an approval. Calls that policy denies stay denied.
    PromptOnDeniedOrPrivileged,
    /// Every call is denied.
    Deny,
}

impl Resource for AgentToolProfile {
    const KIND: Kind = Kind::AgentToolProfile;
    type Status = DefinitionStatus;

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
