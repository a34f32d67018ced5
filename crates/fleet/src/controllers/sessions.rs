//! Sessions: the conversations with agent programs, listed beside their runs.

use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentSession, AnyObject, Object,
};

use super::ReconcileError;
use super::objects::ObjectQueries as _;
use super::run_controller::metadata_beside;
use super::run_queries::RunQueries as _;
use crate::ports::{Clock, Launched, LaunchedState, ObjectStore, StackSources, Write};

/// The annotation of a run that was forked: the session of the run that it was forked from.
pub(super) const FORKED_FROM: &str = "bailiwick.dev/forked-from";

/// Records the sessions of runs.
pub(super) struct SessionRecorder<S, W> {
    store: Arc<S>,
    world: Arc<W>,
}

impl<S, W> SessionRecorder<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        Self { store, world }
    }
}

impl<S: ObjectStore, W: Clock + StackSources> SessionRecorder<S, W> {
    /// The write that creates or updates the session of a run, once its id is known.
    pub(super) async fn session(
        &self,
        run: &Object<AgentDispatchRun>,
        launched: &Launched,
    ) -> Result<Option<Write>, ReconcileError> {
        let Some(session) = &launched.session else { return Ok(None) };
        let name = session_name(run, session);
        let known = self.store.typed::<AgentSession>(&name).await?;
        let is_new = known.is_none();
        let mut object = match known {
            Some(known) => known,
            None => {
                let spec = AgentSession {
                    agent_session_id: session.clone(),
                    dispatch_run: run.name().to_owned(),
                    adapter: self.store.adapter_of(run).await?,
                    forked_from: run.metadata.annotations.get(FORKED_FROM).cloned(),
                };
                Object::new(metadata_beside(&run.metadata, name), spec)
            }
        };
        let before = object.status.clone();
        let (live, lost) = activity(launched.state);
        let cursor = format!("{:020}", launched.cursor);
        if object.status.event_cursor != cursor {
            object.status.event_cursor = cursor;
            object.status.last_activity_at = Some(self.world.now());
        }
        if !live && (object.status.live || is_new) {
            // The program is asked once, at the end.
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

    async fn last_keeps_inputs(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<bool, ReconcileError> {
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        match self.store.typed::<AgentDispatchAttempt>(&last).await? {
            Some(attempt) => self.store.keeps_inputs(&attempt).await,
            None => Ok(false),
        }
    }

    /// Whether an agent program can resume a conversation; an unknown program cannot.
    pub(super) async fn can_resume(&self, adapter: &str) -> bool {
        let known = self.world.capability(adapter).await;
        let able = known.as_ref().and_then(|one| one.get("canResume"));
        able.and_then(serde_json::Value::as_bool).unwrap_or(false)
    }
}

fn session_name(run: &Object<AgentDispatchRun>, session: &str) -> String {
    format!("ase-{}", Sha256Hex::of(format!("{}\n{session}", run.name())).prefix(24))
}

/// The session of a run, which a fork of the run starts from.
pub(super) fn session_of(run: &Object<AgentDispatchRun>) -> Option<String> {
    let session = run.status.agent_session_id.as_deref()?;
    Some(session_name(run, session))
}

/// Whether the program is running, and whether its work must not be used.
fn activity(state: LaunchedState) -> (bool, bool) {
    match state {
        LaunchedState::WaitingForWorker
        | LaunchedState::Starting
        | LaunchedState::Running
        | LaunchedState::WaitingForApproval => (true, false),
        LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted => (false, false),
        LaunchedState::EnforcementLost => (false, true),
    }
}
