//! A repository that agents may work on, and its forge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, ForgeKind, KeyRef, Kind, Moment, Resource, TrustTier};

/// Where a repository is, who may send events for it, and what is always so in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// As its forge calls it: `owner/name`.
    pub full_name: String,
    /// Whose language its forge speaks.
    pub forge: ForgeKind,
    /// The address of the forge's API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// Where it is fetched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_url: Option<String>,
    /// The checkout on this machine that agents' worktrees are made from.
    pub checkout: String,
    /// The branch that work is merged into.
    #[serde(default = "main_branch")]
    pub default_branch: String,
    /// What webhooks are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret_ref: Option<KeyRef>,
    /// What we speak to the forge with. It never reaches an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<KeyRef>,
    /// How much its own branches are trusted; forks never are.
    #[serde(default = "trusted")]
    pub trust_tier: TrustTier,
    /// What every stack is held to here.
    #[serde(default)]
    pub policy: RepositoryPolicy,
    /// How often the forge is asked what was missed, as `10m`; not at all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_every: Option<super::Span>,
}

fn main_branch() -> String {
    "main".to_owned()
}

fn trusted() -> TrustTier {
    TrustTier::Trusted
}

/// What every stack is held to in a repository. It narrows; nothing widens it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RepositoryPolicy {
    /// The stacks that may work here; every one when empty.
    pub allowed_stacks: Vec<String>,
    /// Commands that nobody may run.
    pub denied_commands: Vec<String>,
    /// The most that may be done to files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<super::FilesystemPolicy>,
    /// The approval modes that are allowed; all but `yolo` when empty.
    pub approval_modes: Vec<super::ApprovalMode>,
    /// MCP servers that may be used; every one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_mcp_servers: Option<Vec<String>>,
    /// How many sub-agents may work at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_subagents: Option<u32>,
    /// Whether untrusted work may reach the hosts that its tool profile names; none of them when left out.
    pub untrusted_network: bool,
    /// More texts that are secrets, as regular expressions.
    pub redact: Vec<String>,
}

/// What the control plane knows of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RepositoryStatus {
    /// When the forge was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled_at: Option<Moment>,
    /// How far that went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_cursor: Option<String>,
    /// Workflows that were seen.
    pub known_workflows: Vec<String>,
    /// Labels that were seen.
    pub known_labels: Vec<String>,
    /// The accounts that our credential is of.
    pub own_accounts: Vec<String>,
    /// When the forge was last asked for accounts and labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Moment>,
    /// What does not work with its forge: a line for asking, for fetching and for writing, until it works again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Resource for Repository {
    const KIND: Kind = Kind::Repository;
    type Status = RepositoryStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let parts: Vec<&str> = self.full_name.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty()
                && *part != "."
                && *part != ".."
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if parts.len() != 2 || !parts.iter().all(plain) {
            faults.push(Fault::new("spec.fullName", "write it as owner/name"));
        }
        if !self.checkout.starts_with('/') {
            faults.push(Fault::new("spec.checkout", "write the whole path"));
        }
        let remote = match self.forge {
            ForgeKind::Github | ForgeKind::Gitea => true,
            ForgeKind::Generic | ForgeKind::Local => false,
        };
        if remote && self.api_url.is_none() {
            faults.push(Fault::new("spec.apiUrl", "say where the forge's API is"));
        }
        faults
    }
}
