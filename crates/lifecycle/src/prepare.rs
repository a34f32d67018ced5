//! Everything that is needed to start the agent by hand, written nowhere.

use std::fmt;

use bailiwick_kit::Bound;
use bailiwick_model::role::Isolation;
use bailiwick_model::{AgentId, Dna, Problem};
use serde::Serialize;

use crate::brief;

/// The arguments of Claude Code's Agent tool, and the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentInvocation {
    /// The agent's id.
    pub agent_id: String,
    /// Its role.
    pub role: String,
    pub prompt: String,
    /// The `subagent_type` of the Agent tool.
    pub subagent_type: String,
    /// The `isolation` of the Agent tool.
    pub isolation: Option<String>,
    /// The `description` of the Agent tool.
    pub description: String,
    /// The command to run when it returns.
    pub verify_command: String,
    /// The row that the ledger would get.
    pub ledger_row: String,
    /// The identity of the composition.
    pub dna: String,
}

/// Works out the invocation of a bound task.
pub fn prepare(bound: &Bound, id: &AgentId, nonce: u16) -> Result<AgentInvocation, Problem> {
    let prompt = brief::compose(bound)?;
    let (task, role) = (&bound.task, &bound.role);
    let parent = task.task.parent_agent.as_ref().map_or("none", AgentId::as_str);
    let short: Vec<&str> = id.as_str().split('-').take(2).collect();
    Ok(AgentInvocation {
        agent_id: id.to_string(),
        role: role.name.to_string(),
        prompt,
        subagent_type: task
            .task
            .claude_subagent_type
            .clone()
            .map(String::from)
            .unwrap_or_else(|| role.claude_subagent_type.clone()),
        isolation: match role.isolation {
            Isolation::Worktree => Some("worktree".to_owned()),
            Isolation::None => None,
        },
        description: format!("{} agent {}", role.name, short.join("-")),
        verify_command: format!(
            "kei-agent-runtime verify tasks/{id}/task.toml --worktree <path-from-harness>"
        ),
        ledger_row: format!("running agent-id={id} role={} parent={parent}", role.name),
        dna: dna(bound, nonce).to_string(),
    })
}

/// The identity of a bound task.
pub fn dna(bound: &Bound, nonce: u16) -> Dna {
    let task = &bound.task;
    Dna::compose(&bound.role.name, &bound.role.capabilities, &task.scope, &task.body.text, nonce)
}

impl fmt::Display for AgentInvocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "=== AGENT SUBSTRATE v1 — PREPARED SPAWN ===")?;
        writeln!(out, "agent-id: {}", self.agent_id)?;
        writeln!(out, "dna: {}", self.dna)?;
        writeln!(out, "subagent_type: {}", self.subagent_type)?;
        writeln!(out, "isolation: {}", self.isolation.as_deref().unwrap_or("<none>"))?;
        writeln!(out, "description: {}", self.description)?;
        writeln!(out, "\n--- PROMPT (copy into Agent tool `prompt` param) ---")?;
        writeln!(out, "{}", self.prompt.trim_end())?;
        writeln!(out, "--- END PROMPT ---")?;
        writeln!(out, "\non return:\n  {}", self.verify_command)?;
        writeln!(out, "  (orchestrator harness returns worktree path in the task-notification)")?;
        writeln!(out, "\nledger: {}", self.ledger_row)
    }
}
