//! A repository that agents may work on, and its forge.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, ForgeKind, KeyRef, Kind, Moment, Reason, Resource, TrustTier};

/// A repository, its forge and the policy for work in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// The full name on the forge: `owner/name`.
    pub full_name: String,
    /// The kind of forge.
    pub forge: ForgeKind,
    /// The URL of the forge's API. Required for `github` and `gitea`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// The URL that commits are fetched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_url: Option<String>,
    /// The absolute path of the local checkout from which worktrees are created.
    pub checkout: String,
    /// The branch that work is merged into. The default is `main`.
    #[serde(default = "main_branch")]
    pub default_branch: String,
    /// The secret key that webhooks are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret_ref: Option<KeyRef>,
    /// The secret key with the credential for the forge. Agents never receive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<KeyRef>,
    /// The trust tier of its own branches. The default is `trusted`; forks are always untrusted.
    #[serde(default = "trusted")]
    pub trust_tier: TrustTier,
    /// Limits for every stack in this repository.
    #[serde(default)]
    pub policy: RepositoryPolicy,
    /// The polling interval for missed events, such as `10m`. If left out, the forge is asked only after each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_every: Option<super::Span>,
    /// If true, runs that are started from an issue keep their state in it: the control plane reads the issue before a
    /// run starts, and writes the result, the checkpoint and labels when it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub issue_memory: bool,
    /// The number of an issue whose comments have the claims of runs and the tokens that they may use. Needed where the
    /// credential may write issues but no references. Every machine must name the same issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims_issue: Option<std::num::NonZeroU64>,
    /// The forge accounts and mail addresses of people, by their name in tokens and sign-ins. They are compared with
    /// CODEOWNERS for role bindings with `allow-if-owner`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accounts: BTreeMap<String, Vec<String>>,
}

fn main_branch() -> String {
    "main".to_owned()
}

fn trusted() -> TrustTier {
    TrustTier::Trusted
}

/// Limits for every stack in a repository. They can only narrow what a stack may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RepositoryPolicy {
    /// The names of the stacks that may work here. If empty, all stacks may.
    pub allowed_stacks: Vec<String>,
    /// Commands that no agent may run.
    pub denied_commands: Vec<String>,
    /// The widest filesystem policy that is allowed. If left out, the repository sets no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<super::FilesystemPolicy>,
    /// The allowed approval modes. If empty, all except `yolo`.
    pub approval_modes: Vec<super::ApprovalMode>,
    /// The names of the allowed MCP servers. If left out, all are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_mcp_servers: Option<Vec<String>>,
    /// The maximum number of sub-agents that run at the same time. If left out, the repository sets no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_subagents: Option<u32>,
    /// If true, untrusted work may reach the hosts of its tool profile and MCP servers. If false, such work is
    /// rejected.
    pub untrusted_network: bool,
    /// Regular expressions for additional texts that are redacted as secrets.
    pub redact: Vec<String>,
}

/// The status of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RepositoryStatus {
    /// The last time that the forge was polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled_at: Option<Moment>,
    /// The position up to which the forge was polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_cursor: Option<String>,
    /// Names of workflows seen so far.
    pub known_workflows: Vec<String>,
    /// Labels of the repository on the forge.
    pub known_labels: Vec<String>,
    /// The accounts of our credential. Events by them count as our own.
    pub own_accounts: Vec<String>,
    /// The last time that accounts and labels were read from the forge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Moment>,
    /// The current errors in polling, fetching from or writing to the forge, one line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The same errors with their reasons, one for each use of the forge that fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forge_problems: Vec<ForgeProblem>,
    /// What the forge says about the credential and about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge_facts: Option<ForgeFacts>,
    /// Why the checkout on this machine cannot be used, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout_problem: Option<String>,
    /// The conditions of the repository.
    pub conditions: Vec<Condition>,
    /// The generation that the conditions describe.
    pub observed_generation: u64,
}

/// What a forge says about a credential and about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ForgeFacts {
    /// The version of the forge, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the account may write to the repository.
    pub may_write: bool,
    /// Scopes that the token lacks, such as `write:issue`.
    pub missing_scopes: Vec<String>,
    /// Permissions that the token lacks and that agents can work without, such as `checks: read`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_optional: Vec<String>,
    /// Whether the write access of other accounts can be read.
    pub reads_rights: bool,
    /// Features that the forge is too old for, each with the version that has it.
    pub missing_features: Vec<String>,
}

/// What a forge is used for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ForgeUse {
    /// The connection is used to list and read.
    Asking,
    /// A commit is fetched from it.
    Fetching,
    /// Something is written to it.
    Writing,
}

impl ForgeUse {
    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Fetching => "fetching",
            Self::Writing => "writing",
        }
    }
}

/// A use of a forge that fails. It is removed when the same use works again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgeProblem {
    /// What the forge was used for.
    pub used_for: ForgeUse,
    /// A stable code for the reason.
    pub reason: Reason,
    /// A message for people. Programs must not parse it.
    pub message: String,
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
        let mut known = BTreeSet::new();
        for account in self.accounts.values().flatten() {
            if account.is_empty() || account.starts_with('@') || account.contains('/') {
                let message = "write an account as `name`, or a mail address";
                faults.push(Fault::new("spec.accounts", message));
            } else if !known.insert(account.to_lowercase()) {
                let message =
                    format!("`{account}` is there twice: an account belongs to one person");
                faults.push(Fault::new("spec.accounts", message));
            }
        }
        faults
    }
}
