//! What was observed of the world, as values.

use std::collections::BTreeMap;

use bailiwick_resources::{ApprovalMode, DiscoveredTool, ResourceRule};
use serde::Serialize;

/// What came of asking an agent program what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdapterProbe {
    /// Not asked yet.
    NotYet,
    /// No adapter has this name.
    Unsupported(String),
    /// Its program is not installed or does not answer.
    Unavailable(String),
    /// It answered.
    Seen(AdapterFacts),
}

/// What an agent program can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterFacts {
    /// Whether the program, as it is installed now, has what its adapter expects of it.
    pub is_current: bool,
    /// Whether each tool call can be stopped before it runs.
    pub gates_tools: bool,
    /// Whether it can use MCP servers.
    pub mcp: bool,
    /// Whether it can delegate.
    pub subagents: bool,
    /// To how many at once, if it says so.
    pub max_parallel: Option<u32>,
    /// The approval modes that it can be held to; all of them when empty.
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
    /// How hard it can be told to think; nobody knows when empty.
    pub efforts: Vec<String>,
    /// Whether a conversation can be taken up again.
    pub can_resume: bool,
    /// Whether it can start agents by itself.
    pub supports_subagent_dispatch: bool,
    /// Whether it takes MCP servers.
    #[serde(rename = "supportsMCP")]
    pub supports_mcp: bool,
    /// What was expected of it and is not there.
    pub missing: Vec<String>,
}

/// What came of starting an MCP server and asking for its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpProbe {
    /// Not asked yet.
    NotYet,
    Answered(Vec<DiscoveredTool>),
    /// It did not.
    Failed(String),
    /// It did not in time.
    TimedOut(String),
}

/// What came of looking for a skill.
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
    /// Something is there that is no skill.
    Invalid(String),
}

/// What came of resolving a stack's role in the kit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KitRole {
    /// Not checked yet.
    NotYet,
    /// The kit has no such role, or cannot bind it.
    Missing(String),
    /// It is there.
    Found(RoleFacts),
}

/// What the kit says of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleFacts {
    /// Its tools, as globs.
    pub tools: Vec<String>,
    /// Parameters that its capabilities accept.
    pub accepted: Vec<String>,
}

impl RoleFacts {
    /// What the kit says of a task's role.
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

/// What was observed for a stack. Servers and skills are named as their objects are.
#[derive(Debug, Clone)]
pub struct StackFacts {
    /// Its agent program.
    pub adapter: AdapterProbe,
    /// What its agent program says of itself, if it was asked and answered.
    pub program: Option<ProgramFacts>,
    /// Its MCP servers; one that is not here was not asked.
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

/// What is known of the one who wrote a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorFacts {
    /// What they may do themselves.
    pub rules: Vec<ResourceRule>,
    /// Whether an admin has said yes to the binding as it is.
    pub approved: bool,
}
