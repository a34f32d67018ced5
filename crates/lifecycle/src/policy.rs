//! The policy of a bound task or a role, as the gate reads it.

use bailiwick_kit::{Bound, FoundCapability};
use bailiwick_model::{AgentId, Capability, Problem, Source};
use bailiwick_policy::compile::{self, CompileError, Sources};
use bailiwick_policy::{Policy, ToolStack};

/// The machine-specific inputs of a policy.
#[derive(Debug, Clone, Default)]
pub struct CompileContext {
    /// Variables that are set to `1`. Those that a capability names as its bypass switch it off.
    pub set_bypass_variables: Vec<String>,
    /// Temporary directories in which anything may be written.
    pub temporary: Vec<String>,
    /// Directories that an agent never writes.
    pub protected: Vec<String>,
    /// The tool lists of the agent's template and of those above it.
    pub tool_lists: ToolStack,
}

/// The policy of a task, for the agent that does it.
pub fn of_task(
    bound: &Bound,
    agent: Option<&AgentId>,
    context: &CompileContext,
) -> Result<Policy, Problem> {
    let agent = agent.or(bound.task.task.agent_id.as_ref()).map(AgentId::as_str);
    compiled(bound, agent, context).map_err(|error| problem(&error, &bound.source))
}

fn compiled(
    bound: &Bound,
    agent: Option<&str>,
    context: &CompileContext,
) -> Result<Policy, CompileError> {
    let Bound { role, capabilities, task, .. } = bound;
    let declared: Vec<&Capability> = capabilities.iter().map(|found| &found.declared).collect();
    compile::compile(&Sources {
        role: role.name.as_str(),
        agent,
        tools: Some(&role.tools),
        ask: &role.ask,
        bash_patterns: &role.bash_patterns,
        escalation: role.escalation,
        capabilities: &declared,
        task: Some(task),
        set_bypass_variables: &context.set_bypass_variables,
        temporary: &context.temporary,
        protected: &context.protected,
        tool_lists: &context.tool_lists,
    })
}

/// The variables that could switch off a limit of these capabilities.
pub fn bypass_variables(capabilities: &[FoundCapability]) -> Vec<String> {
    let declared: Vec<&Capability> = capabilities.iter().map(|found| &found.declared).collect();
    compile::bypass_variables(&declared)
}

fn problem(error: &CompileError, source: &Source) -> Problem {
    Problem::error("policy", source.whole(), error.to_string()).help(
        "a limit that cannot be made a table cannot be enforced; write the pattern more simply",
    )
}
