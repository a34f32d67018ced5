//! Sessions: the conversations with agent programs, listed beside their runs.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentSession, AgentStack, AnyObject, AuditLevel, Object,
};
use serde::Deserialize as _;

use super::run_controller::metadata_beside;
use super::{ControlPlane, ReconcileError};
use crate::ports::{Engine, FleetStore, Launched, LaunchedState, World, Write};

/// The annotation of a run that was forked: the session of the run that it was forked from.
pub(super) const FORKED_FROM: &str = "bailiwick.dev/forked-from";

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// The session, once its name is known: made, or as it is now.
    pub(super) async fn session(
        &self,
        run: &Object<AgentDispatchRun>,
        launched: &Launched,
    ) -> Result<Option<Write>, ReconcileError> {
        let Some(session) = &launched.session else { return Ok(None) };
        let name = session_name(run, session);
        let known = self.typed::<AgentSession>(&name).await?;
        let is_new = known.is_none();
        let mut object = match known {
            Some(known) => known,
            None => {
                let spec = AgentSession {
                    agent_mux_session_id: session.clone(),
                    dispatch_run: run.name().to_owned(),
                    adapter: self.adapter_of(run).await?,
                    forked_from: run.metadata.annotations.get(FORKED_FROM).cloned(),
                };
                Object::new(metadata_beside(&run.metadata, name), spec)
            }
        };
        let before = object.status.clone();
        let (live, lost) = standing(launched.state);
        let cursor = format!("{:020}", launched.cursor);
        if object.status.event_cursor != cursor {
            object.status.event_cursor = cursor;
            object.status.last_activity_at = Some(self.world.now());
        }
        if !live && (object.status.live || is_new) {
            // Its program is asked once, when it has ended.
            object.status.resumable = !lost
                && self.can_resume(&object.spec.adapter).await
                && self.last_keeps_inputs(run).await?;
        }
        object.status.live = live;
        if live {
            object.status.resumable = false;
        }
        Ok(match (is_new, object.status == before) {
            (true, _) => Some(Write::Create(AnyObject::of(&object)?)),
            (false, true) => None,
            (false, false) => Some(Write::Status(AnyObject::of(&object)?)),
        })
    }

    /// The adapter that a run was admitted with.
    pub(super) async fn adapter_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<String, ReconcileError> {
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let attempt = self.typed::<AgentDispatchAttempt>(&last).await?;
        let stack = attempt.and_then(|attempt| {
            let first = attempt.spec.agent_stack_snapshot.objects.first()?;
            AgentStack::deserialize(&first.spec).ok()
        });
        Ok(match stack {
            Some(stack) if stack.adapter.is_empty() => stack.base_agent.as_str().to_owned(),
            Some(stack) => stack.adapter,
            None => run.spec.agent_stack.clone(),
        })
    }

    /// Whether the last attempt of a run has written down what it was asked to do.
    async fn last_keeps_inputs(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<bool, ReconcileError> {
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        match self.typed::<AgentDispatchAttempt>(&last).await? {
            Some(attempt) => self.keeps_inputs(&attempt).await,
            None => Ok(false),
        }
    }

    /// Whether enough of an attempt's calls is written down to tell which were decided: a conversation of
    /// which nobody can tell is never taken up again.
    pub(super) async fn keeps_inputs(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<bool, ReconcileError> {
        let prepared = match self.prepared(attempt).await {
            Ok(prepared) => prepared,
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            // What is not known to be written down is not.
            Err(_) => return Ok(false),
        };
        Ok(prepared.limits.audit_level >= AuditLevel::Inputs)
    }

    /// Whether an agent program can take a conversation up again; one that nobody has seen cannot.
    pub(super) async fn can_resume(&self, adapter: &str) -> bool {
        let known = self.world.capability(adapter).await;
        let able = known.as_ref().and_then(|one| one.get("canResume"));
        able.and_then(serde_json::Value::as_bool).unwrap_or(false)
    }
}

/// The session of a run that its program has this name for.
fn session_name(run: &Object<AgentDispatchRun>, session: &str) -> String {
    format!("ase-{}", Sha256Hex::of(format!("{}\n{session}", run.name())).prefix(24))
}

/// The session that a run is in, if it has one: the one who forks the run forks that.
pub(super) fn session_of(run: &Object<AgentDispatchRun>) -> Option<String> {
    let session = run.status.agent_mux_session_id.as_deref()?;
    Some(session_name(run, session))
}

/// Whether its program is at work, and whether nothing of it may be used any more.
fn standing(state: LaunchedState) -> (bool, bool) {
    match state {
        LaunchedState::Starting | LaunchedState::Running | LaunchedState::WaitingForApproval => {
            (true, false)
        }
        LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted => (false, false),
        LaunchedState::EnforcementLost => (false, true),
    }
}
