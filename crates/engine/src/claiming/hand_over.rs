//! Claims that outlive the work of their run: the next run with the same workspace takes them over, or they are given back.

use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;
use crate::reused_workspace;

/// Gives back what a run and the runs below it have claimed, when its work has left this machine.
pub fn give_back(context: &Context, id: &AgentId) -> Result<(), Failure> {
    let mut runs = idle_below(context, std::slice::from_ref(id))?;
    runs.push(id.clone());
    for run in &runs {
        super::expire_claims(context, run)?;
    }
    super::forge::give_back(context, id)
}

/// The runs whose claims a run takes over: those that left it their files, and what they had started.
pub(super) fn earlier_claimants(context: &Context, id: &AgentId) -> Result<Vec<AgentId>, Failure> {
    let mut runs = reused_workspace::earlier_runs(&context.state, id)?;
    if !runs.is_empty() {
        runs.extend(idle_below(context, &runs)?);
    }
    Ok(runs)
}

/// The runs below these that have claims, and whose agents do not run.
fn idle_below(context: &Context, runs: &[AgentId]) -> Result<Vec<AgentId>, Failure> {
    let mut idle = Vec::new();
    for run in context.with_store(async |store| Ok(store.claimants_below(runs).await?))? {
        let is_supervised = RunDirectory::new(&context.state, run.as_str()).is_supervised();
        let is_supervised = is_supervised
            .map_err(|error| Failure::general(format!("`{run}` cannot be looked at: {error}")))?;
        if !is_supervised {
            idle.push(run);
        }
    }
    Ok(idle)
}
