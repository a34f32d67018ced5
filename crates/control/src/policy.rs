//! The policy of a bound task or a role: what the gate will read.

use bailiwick_kit::{Bound, FoundCapability, ResolvedRole};
use bailiwick_model::{Capability, Problem, Source, Task};
use bailiwick_policy::Policy;
use bailiwick_policy::compile::{self, CompileError, Sources};

/// What is known where a policy is compiled.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Variables that are set to `1`: those that the capabilities name as a bypass count.
    pub switched_on: Vec<String>,
    /// Temporary directories in which anything may be written.
    pub temporary: Vec<String>,
    /// Directories that an agent never writes.
    pub protected: Vec<String>,
}

/// The policy of a task.
pub fn of_task(bound: &Bound, around: &Surroundings) -> Result<Policy, Problem> {
    let agent = bound.task.task.agent_id.as_ref().map(ToString::to_string);
    let policy =
        compiled(&bound.role, &bound.capabilities, Some(&bound.task), agent.as_deref(), around);
    policy.map_err(|error| problem(&error, &bound.source))
}

fn compiled(
    role: &ResolvedRole,
    capabilities: &[FoundCapability],
    task: Option<&Task>,
    agent: Option<&str>,
    around: &Surroundings,
) -> Result<Policy, CompileError> {
    let declared: Vec<&Capability> = capabilities.iter().map(|found| &found.declared).collect();
    compile::compile(&Sources {
        role: role.name.as_str(),
        agent,
        tools: Some(&role.tools),
        ask: &role.ask,
        bash_patterns: &role.bash_patterns,
        escalation: role.escalation,
        capabilities: &declared,
        task,
        switched_on: &around.switched_on,
        temporary: &around.temporary,
        protected: &around.protected,
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
