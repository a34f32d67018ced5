//! Observations of the world, as values.

use std::collections::BTreeMap;

use bailiwick_resources::{ApprovalMode, DiscoveredTool, ResourceRule};
use serde::Serialize;

/// The result of probing an agent CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdapterProbe {
    /// Not probed yet.
    NotYet,
    /// No adapter has this name.
    Unsupported(String),
    /// Its program is not installed or does not answer.
    Unavailable(String),
    /// It answered.
    Seen(AdapterFacts),
}

/// The capabilities of an agent CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterFacts {
    /// Whether the installed version has what its adapter expects.
    pub is_current: bool,
    /// Whether each tool call can be stopped before it runs.
    pub gates_tools: bool,
    /// Whether it can use MCP servers.
    pub mcp: bool,
    /// Whether it can delegate.
    pub subagents: bool,
    /// The number of parallel agents, if it has a limit.
    pub max_parallel: Option<u32>,
    /// The approval modes that can be enforced; all of them when empty.
    pub approval_modes: Vec<ApprovalMode>,
}

/// The capabilities of an agent program, in one schema for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramFacts {
    /// Its version, in its own words.
    pub version: String,
    /// Models that it is known to take; others may work.
    pub models: Vec<String>,
    /// The supported efforts; not known when empty.
    pub efforts: Vec<String>,
    /// Whether a conversation can be resumed.
    pub can_resume: bool,
    /// Whether it can start sub-agents.
    pub supports_subagent_dispatch: bool,
    /// Whether it supports MCP servers.
    #[serde(rename = "supportsMCP")]
    pub supports_mcp: bool,
    /// Expected features that are missing.
    pub missing: Vec<String>,
}

/// The result of starting an MCP server and listing its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpProbe {
    /// Not probed yet.
    NotYet,
    Answered(Vec<DiscoveredTool>),
    /// It did not.
    Failed(String),
    /// It did not in time.
    TimedOut(String),
}

/// The result of the search for a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillProbe {
    /// Not checked yet.
    NotYet,
    /// It is there.
    Found {
        /// The digest of what was found.
        digest: String,
        /// Its text, as an agent reads it.
        text: String,
    },
    /// It is not.
    Missing,
    /// The source is not a skill.
    Invalid(String),
}

/// The result of resolving a stack's role in the kit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KitRole {
    /// Not checked yet.
    NotYet,
    /// The kit has no such role, or cannot bind it.
    Missing(String),
    /// It is there.
    Found(RoleFacts),
}

/// The facts about a role in the kit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleFacts {
    /// Its tools, as globs.
    pub tools: Vec<String>,
    /// Parameters that its capabilities accept.
    pub accepted: Vec<String>,
}

impl RoleFacts {
    /// The facts about a task's role in the kit.
    pub fn of(bound: &bailiwick_kit::Bound) -> Self {
        let accepted = bound.capabilities.iter().flat_map(|capability| {
            let accepts = &capability.declared.parameterized.accepts;
            accepts.iter().map(|name| name.get_ref().clone())
        });
        let mut accepted: Vec<String> = accepted.map(|name| name.to_string()).collect();
        accepted.sort();
        accepted.dedup();
        Self { tools: bound.role.tools.clone(), accepted }
    }
}

/// The observations for a stack. Servers and skills are named as their objects are.
#[derive(Debug, Clone)]
pub struct StackFacts {
    /// Its agent program.
    pub adapter: AdapterProbe,
    /// The facts that its agent CLI reports, if it was probed.
    pub program: Option<ProgramFacts>,
    /// Its MCP servers; missing ones were not probed.
    pub mcp: BTreeMap<String, McpProbe>,
    /// Its skills; one that is not here was not looked for.
    pub skills: BTreeMap<String, SkillProbe>,
    /// The instructions of the repository that it names.
    pub agents_doc: SkillProbe,
    pub role: KitRole,
}

impl Default for StackFacts {
    fn default() -> Self {
        Self {
            adapter: AdapterProbe::NotYet,
            program: None,
            mcp: BTreeMap::new(),
            skills: BTreeMap::new(),
            agents_doc: SkillProbe::NotYet,
            role: KitRole::NotYet,
        }
    }
}

impl StackFacts {
    /// Tools that servers were found to have, by the names of their objects.
    pub fn discovered(&self) -> BTreeMap<String, Vec<DiscoveredTool>> {
        let answered = self.mcp.iter().filter_map(|(name, probe)| match probe {
            McpProbe::Answered(tools) => Some((name.clone(), tools.clone())),
            McpProbe::NotYet | McpProbe::Failed(_) | McpProbe::TimedOut(_) => None,
        });
        answered.collect()
    }
}

/// The facts about the author of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorFacts {
    /// Their own rights.
    pub rules: Vec<ResourceRule>,
    /// Whether an admin has approved the binding in its current form.
    pub approved: bool,
}
