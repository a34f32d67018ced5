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
use crate::ports::{Engine, FleetStore, World};

impl<S: FleetStore, E: Engine, W: World> RunController<S, E, W> {
    /// Why an attempt cannot count as done: its conversation has started a sub-agent that is not optional,
    /// and none of that one's runs came to a good end.
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
        // What ended in an earlier attempt of the conversation is reported there alone.
        for name in run.status.attempts.iter().filter(|name| *name != attempt.name()) {
            match self.store.typed::<AgentDispatchAttempt>(name).await? {
                Some(earlier) if agent_of(&earlier) == agent => {
                    events.extend(earlier.status.subagent_events);
                }
                Some(_) => {}
                None if agent == attempt.name() => {}
                // It may have reported a sub-agent that failed.
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

/// How a sub-agent that was started came to no good end.
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
