//! The sub-agents of a stack, as the engine offers them: the templates that its agent may start, and no
//! others.

use bailiwick_model::template::AgentType;
use bailiwick_policy::Limits;
use bailiwick_resources::{AgentSubagent, Object, Reason};
use serde::{Deserialize, Serialize};

use super::{CompileFault, CompileInput, limits, server_name, servers};
use crate::subagents::ParallelLimits;

/// The definition from which a child run is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubagentDefinition {
    /// The name that its parent uses.
    pub name: String,
    /// Its object, as it was admitted.
    pub spec: AgentSubagent,
    /// The limits that apply besides its policy and everything that binds its parent.
    pub limits: Limits,
    /// Its MCP servers out of its parent's, by the names that agents have for them.
    pub mcp_servers: Vec<String>,
    /// The texts of its skills.
    #[serde(default)]
    pub skills: Vec<String>,
}

/// The name of a sub-agent for its parent.
pub fn subagent_name(child: &Object<AgentSubagent>) -> &str {
    match child.spec.name.as_str() {
        "" => child.name(),
        name => name,
    }
}

/// The sub-agents of a stack; a child has none.
pub(super) fn of(
    input: &CompileInput<'_>,
    faults: &mut Vec<CompileFault>,
) -> Vec<SubagentDefinition> {
    if input.child.is_some() {
        return Vec::new();
    }
    let mut all: Vec<SubagentDefinition> = Vec::new();
    for child in &input.frozen.subagents {
        let name = subagent_name(child);
        let taken = all.iter().any(|one| one.name == name);
        let plain = AgentType::parse(name).is_ok_and(|parsed| parsed.as_str() == name);
        if taken || !plain {
            let why = if taken { "is the name of two" } else { "is no name for one" };
            let message = format!("`{name}` {why}: sub-agents are called as in my-reviewer");
            faults.push(CompileFault::new(Reason::SubagentDispatchUnsupported, message));
            continue;
        }
        let own = CompileInput { child: Some(child), ..*input };
        all.push(SubagentDefinition {
            name: name.to_owned(),
            spec: child.spec.clone(),
            limits: Limits(vec![limits::of_child(&own, child, faults)]),
            mcp_servers: servers(&own).into_iter().map(|one| server_name(one).to_owned()).collect(),
            skills: skills(&own, child),
        });
    }
    all
}

/// The texts of the skills that a sub-agent names; those in the repository, it reads there.
fn skills(input: &CompileInput<'_>, child: &Object<AgentSubagent>) -> Vec<String> {
    let named = |name: &str| child.spec.skill_refs.iter().any(|one| one == name);
    let mine = input.frozen.skills.iter().filter(|skill| named(skill.name()));
    let texts = mine.flat_map(|skill| {
        [Some(skill.spec.prompt_fragment.clone()), skill.spec.source_ref.inline.clone()]
    });
    texts.flatten().filter(|text| !text.trim().is_empty()).collect()
}

/// How many may run in parallel, before the pool is known.
pub(super) fn parallel(input: &CompileInput<'_>) -> ParallelLimits {
    ParallelLimits {
        run: None,
        stack: input.frozen.stack.spec.max_parallel_subagents,
        pool: None,
        repository: input.repository.spec.policy.max_parallel_subagents,
    }
}
