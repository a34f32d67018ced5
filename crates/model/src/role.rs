//! A role's file: an ordered set of capabilities, with tools and escalation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use crate::name::{CapabilityName, RoleName};
use crate::task::Line;

/// A role as its file declares it, before `extends` is followed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "role")]
pub struct Role {
    /// What it is called and how it is started.
    pub role: Header,
    /// The capabilities that bind it.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The tools that it may use; those of the parent role if left out.
    #[serde(default)]
    pub tools: Option<Tools>,
    /// What the agent does when it is denied; as in the parent role if left out.
    #[serde(default)]
    pub escalation: Option<Escalation>,
    /// The classification by other kits; it limits and grants nothing.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub taxonomy: Option<toml::Table>,
    /// The roles that other kits start after it; they limit and grant nothing.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub pipeline: Option<toml::Table>,
    /// Who wrote it and when; it limits and grants nothing.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub lineage: Option<toml::Table>,
}

/// `[role]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Header {
    /// The stem of the file.
    #[schemars(with = "RoleName")]
    pub name: Spanned<RoleName>,
    /// A name for people.
    #[serde(default)]
    pub display_name: Option<String>,
    /// One sentence.
    #[serde(default)]
    pub description: String,
    /// Whether agents can be started in this role; as in the parent role if left out, else true.
    #[serde(default)]
    pub spawnable: Option<bool>,
    /// The `subagent_type` for Claude Code's Agent tool.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub claude_subagent_type: Option<Line>,
    /// Whether Claude Code's Agent tool creates a worktree.
    #[serde(default)]
    pub isolation: Option<Isolation>,
}

/// Whether Claude Code's Agent tool creates a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A separate worktree.
    Worktree,
    /// None.
    None,
}

/// `[capabilities]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capabilities {
    /// The role whose capabilities come first.
    #[schemars(with = "Option<RoleName>")]
    pub extends: Option<Spanned<RoleName>>,
    /// In this order, behind those of the parent.
    #[schemars(with = "Vec<CapabilityName>")]
    pub required: Vec<Spanned<CapabilityName>>,
    /// Capabilities to remove from the inherited ones.
    #[schemars(with = "Vec<CapabilityName>")]
    pub relaxes: Vec<Spanned<CapabilityName>>,
}

/// `[tools]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tools {
    /// Tools by name, `*` and `?` match; anything else is denied.
    #[schemars(with = "Vec<String>")]
    pub allowed: Vec<Spanned<String>>,
    /// Tools that need an approval for each call, by name; `*` and `?` match.
    #[schemars(with = "Vec<String>")]
    pub ask: Vec<Spanned<String>>,
    /// Regular expressions; if there are any, a shell command must match one.
    #[schemars(with = "Vec<String>")]
    pub bash_patterns_allowed: Vec<Spanned<String>>,
}

/// `[escalation]`
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Escalation {
    /// What the agent does when it is denied.
    pub policy: EscalationPolicy,
}

/// What the agent does when it is denied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationPolicy {
    /// It reports the denial in its final message.
    #[default]
    AskViaReturn,
    /// It continues as far as it can, and the orchestrator is notified.
    OrchestratorNotify,
    /// Its run ends at the first denial.
    FailFast,
}

impl EscalationPolicy {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AskViaReturn => "ask-via-return",
            Self::OrchestratorNotify => "orchestrator-notify",
            Self::FailFast => "fail-fast",
        }
    }

    /// The instruction for the agent.
    pub fn instruction(self) -> &'static str {
        match self {
            Self::AskViaReturn => {
                "do not work around it. Finish what you can, then say in your return what you \
                 were denied and what you would need."
            }
            Self::OrchestratorNotify => {
                "do not work around it. The orchestrator is notified at once; go on with the \
                 parts that the limit does not touch, and repeat the denial in your return."
            }
            Self::FailFast => {
                "your run ends at that moment. Do not try a call that you expect to be denied; \
                 return early and say why."
            }
        }
    }
}
