//! Which of our own runs caused an event.

use bailiwick_resources::{
    AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, Kind, Repository,
};

use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::trigger_controller::TriggerController;
use crate::ports::{Clock, Commits, Forges, ObjectStore, SecretStore, Selection, StackSources};
use crate::triggers::own_work::{attempt_of, is_ours, is_told_by_work};
use crate::triggers::{OwnWork, SourceEvent};

/// How far a chain of runs is followed.
const MAX_DEPTH: u32 = 64;

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    TriggerController<S, W>
{
    /// The run whose work these events are about. They are of one delivery, so the first decides.
    pub(super) async fn own_work(
        &self,
        repository: &Repository,
        accounts: &[String],
        events: &[SourceEvent],
    ) -> Result<Option<OwnWork>, ReconcileError> {
        let Some(event) = events.first().filter(|event| is_told_by_work(event, accounts)) else {
            return Ok(None);
        };
        let run = match self.run_of_commit(event).await? {
            Some(run) => Some(run),
            None => self.run_of_branch(event, accounts).await?,
        };
        let Some(run) = run else { return Ok(None) };
        let mut depth = 1;
        let mut last = run.clone();
        while depth < MAX_DEPTH {
            let before = self.store.typed::<AgentDispatchRun>(&last).await?;
            // A commit can be in many repositories; a chain of runs is in one.
            let before = before.filter(|run| run.spec.repository == repository.full_name);
            let Some(cause) = before.and_then(|run| run.spec.source_refs.caused_by) else { break };
            last = cause;
            depth += 1;
        }
        Ok(Some(OwnWork { run, depth }))
    }

    async fn run_of_commit(&self, event: &SourceEvent) -> Result<Option<String>, ReconcileError> {
        let Some(sha) = &event.sha else { return Ok(None) };
        let same = Selection {
            limit: 1,
            ..Selection::of(Kind::AgentArtifact).field("commit", sha.as_str())
        };
        let found = self.store.list(&same).await?.objects;
        let Some(found) = found.first() else { return Ok(None) };
        Ok(Some(found.typed::<AgentArtifact>()?.spec.dispatch_run))
    }

    /// A branch that a run created is its work until another account pushes to it.
    async fn run_of_branch(
        &self,
        event: &SourceEvent,
        accounts: &[String],
    ) -> Result<Option<String>, ReconcileError> {
        let attempt = event.branch.as_deref().and_then(attempt_of);
        let Some(attempt) = attempt.filter(|_| is_ours(event, accounts)) else { return Ok(None) };
        let attempt = self.store.typed::<AgentDispatchAttempt>(attempt).await?;
        Ok(attempt.map(|attempt| attempt.spec.agent_dispatch_run))
    }
}
