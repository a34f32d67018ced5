//! Agents that a run asked for although its task does not allow them. Its issue shows that a limit was broken.

use bailiwick_model::AgentId;
use bailiwick_model::template::AgentType;
use bailiwick_runner::supervisor::RunDirectory;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::failure::Failure;
use crate::system;

/// The file of a run, out of the agent's reach.
const FILE: &str = "disallowed-agents.json";
/// More requests add nothing.
const MAX_REQUESTS: usize = 20;

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DisallowedRequest {
    agent_type: AgentType,
    /// Milliseconds since 1970.
    at: u64,
}

/// Records that a run asked for an agent that it may not start.
pub(crate) fn record(
    context: &Context,
    run: &AgentId,
    agent_type: &AgentType,
) -> Result<(), Failure> {
    let file = RunDirectory::new(&context.state, run.as_str()).path().join(FILE);
    let mut all: Vec<DisallowedRequest> = system::read_json(&file)?.unwrap_or_default();
    all.retain(|one| one.agent_type != *agent_type);
    all.push(DisallowedRequest { agent_type: agent_type.clone(), at: system::now_ms() });
    let extra = all.len().saturating_sub(MAX_REQUESTS);
    system::write_json(&file, &all.split_off(extra))
}

/// The agents that a run asked for since then, in milliseconds since 1970.
pub(crate) fn since(
    context: &Context,
    run: &AgentId,
    time: u64,
) -> Result<Vec<AgentType>, Failure> {
    let file = RunDirectory::new(&context.state, run.as_str()).path().join(FILE);
    let all: Vec<DisallowedRequest> = system::read_json(&file)?.unwrap_or_default();
    let later = all.into_iter().filter(|one| one.at >= time);
    Ok(later.map(|one| one.agent_type).collect())
}
