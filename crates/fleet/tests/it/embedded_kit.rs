//! Tasks bound to the embedded kit, and the policies of their roles.

use bailiwick_kit::{Bound, Kit, bind};
use bailiwick_model::{Capability, Source};
use bailiwick_policy::compile::{Sources, compile};
use bailiwick_policy::{Policy, ToolStack};

pub(crate) fn bound(task: &str) -> Bound {
    let kit = Kit::over_embedded(vec![]);
    match bind(&kit, &Source::new("task.toml", task)) {
        Ok(bound) => bound,
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("{}\n{task}", problems.join("\n"))
        }
    }
}

/// The policy of a task from its role and the kit, before the limits of the fleet.
pub(crate) fn policy(task: &str) -> Policy {
    let Bound { role, capabilities, task, .. } = bound(task);
    let declared: Vec<&Capability> = capabilities.iter().map(|found| &found.declared).collect();
    compile(&Sources {
        role: role.name.as_str(),
        agent: task.task.agent_id.as_ref().map(|id| id.as_str()),
        tools: Some(&role.tools),
        ask: &role.ask,
        bash_patterns: &role.bash_patterns,
        escalation: role.escalation,
        capabilities: &declared,
        task: Some(&task),
        set_bypass_variables: &[],
        temporary: &[],
        protected: &[],
        tool_lists: &ToolStack::default(),
    })
    .unwrap()
}
