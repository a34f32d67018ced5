//! Sub-agents that must succeed before their parent continues.

use std::collections::BTreeMap;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, Object, RunPhase, SubagentEvent,
};

use crate::controllers::ReconcileError;
use crate::controllers::launch::{agent_of, subagents_of};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::outcome::{EndCode, RunEnd, subagent_event_phase};
use crate::controllers::run_controller::RunController;
use crate::ports::{
    Clock, Commits, Engine, Forges, ObjectStore, SecretStore, StackSources, Worktrees,
};

impl<
    S: ObjectStore + SecretStore,
    E: Engine,
    W: Clock + Forges + Commits + StackSources + Worktrees,
> RunController<S, E, W>
{
    /// The failure of an attempt whose conversation started a required sub-agent none of whose runs succeeded.
    pub(super) async fn unmet(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<Option<RunEnd>, ReconcileError> {
        let required = subagents_of(attempt).into_iter().filter(|(_, spec)| !spec.optional);
        let required: Vec<String> = required.map(|(name, _)| name).collect();
        if required.is_empty() {
            return Ok(None);
        }
        let agent = agent_of(attempt);
        let mut events = Vec::new();
        // Sub-agents that ended in an earlier attempt are recorded there alone.
        for name in run.status.attempts.iter().filter(|name| *name != attempt.name()) {
            match self.store.typed::<AgentDispatchAttempt>(name).await? {
                Some(earlier) if agent_of(&earlier) == agent => {
                    events.extend(earlier.status.subagent_events);
                }
                Some(_) => {}
                None if agent == attempt.name() => {}
                // It may have recorded a failed sub-agent.
                None => {
                    let why = format!("its attempt `{name}` is gone");
                    return Ok(Some(EndCode::RequiredSubagentFailed.because(why)));
                }
            }
        }
        events.extend(attempt.status.subagent_events.iter().cloned());
        Ok(required.iter().find_map(|name| failed(name, &events)))
    }
}

/// The failure of a required sub-agent that was started and never succeeded.
fn failed(name: &str, events: &[SubagentEvent]) -> Option<RunEnd> {
    let events = events.iter().filter(|event| event.subagent == name);
    let last: BTreeMap<&str, &SubagentEvent> =
        events.map(|event| (event.run.as_str(), event)).collect();
    let (run, event) = last.iter().next()?;
    if last.values().any(|event| subagent_event_phase(event) == Some(RunPhase::Succeeded)) {
        return None;
    }
    let why = format!("`{name}` is not optional, and {run} is {}", event.what);
    Some(EndCode::RequiredSubagentFailed.because(why))
}
