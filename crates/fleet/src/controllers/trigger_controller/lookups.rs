//! Looks up what an event lacks: on the forge, or in git.

use bailiwick_resources::{Object, Repository};

use super::TriggerController;
use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    Clock, Commits, Forge as _, ForgeError, Forges, ObjectStore, SecretStore, StackSources,
};
use crate::triggers::{Lookup, SourceEvent, lookups};

/// How much of a job's log is read.
const MAX_LOG_BYTES: usize = 256 * 1024;

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    TriggerController<S, W>
{
    /// Asks the forge and git for what the event lacks. A refused lookup stays unknown. A forge that does not answer
    /// is reported after all lookups were tried.
    pub(in crate::controllers) async fn look_up_missing(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
    ) -> Result<(), ReconcileError> {
        let rules = self.store.rules().await?;
        let mut silent = None;
        for event in events {
            for lookup in lookups(event, &rules) {
                match self.look_up(repository, event, lookup).await {
                    Err(error @ ReconcileError::Forge(ForgeError::Unavailable(_))) => {
                        silent.get_or_insert(error);
                    }
                    Err(error) if is_infrastructure(&error) => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        silent.map_or(Ok(()), Err)
    }

    /// The same, without waiting longer than [`FORGE_TIMEOUT`](super::FORGE_TIMEOUT) for a forge that does not
    /// answer.
    pub(in crate::controllers) async fn look_up_missing_until_late(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
    ) -> Result<(), ReconcileError> {
        match self.look_up_missing(repository, events).await {
            Err(ReconcileError::Forge(_)) if self.is_late(events) => Ok(()),
            learnt => learnt,
        }
    }

    async fn look_up(
        &self,
        repository: &Object<Repository>,
        event: &mut SourceEvent,
        lookup: Lookup,
    ) -> Result<(), ReconcileError> {
        match lookup {
            Lookup::PullRequest(number) => {
                let forge = self.forges.open(repository).await?;
                let state = forge.pull_request(number).await?;
                event.learn_pull_request(&state);
                if event.base_sha.is_none() {
                    event.base_sha = forge.branch(&state.base_branch).await?;
                }
            }
            Lookup::Branch(branch) => {
                let branch = branch.unwrap_or_else(|| repository.spec.default_branch.clone());
                if let Some(head) = self.forges.open(repository).await?.branch(&branch).await? {
                    event.learn_branch(&branch, &head);
                }
            }
            Lookup::Commit(reference) => {
                event.sha = self.forges.fetched_commit(repository, &reference, None).await?;
            }
            Lookup::ChangedPaths { base, head } => {
                // Both may have to be fetched.
                for sha in [&base, &head] {
                    self.forges.fetched_commit(repository, sha, Some(sha)).await?;
                }
                let paths = self.world.changed_paths(&repository.spec, &base, &head).await;
                event.changed_paths = Some(paths.map_err(ReconcileError::World)?);
            }
            Lookup::Permission(actor) => {
                match self.forges.open(repository).await?.permission(&actor).await {
                    Ok(rights) => event.learn_rights(rights),
                    // Tried again. A refusal leaves the permission unknown, which grants nothing.
                    Err(away @ ForgeError::Unavailable(_)) => return Err(away.into()),
                    Err(
                        ForgeError::Refused(_)
                        | ForgeError::Moved { .. }
                        | ForgeError::Unsupported(_),
                    ) => {}
                }
            }
            Lookup::JobLog(job) => {
                let log = self.forges.open(repository).await?.job_log(&job, MAX_LOG_BYTES).await?;
                event.failure_log = Some(log);
            }
        }
        Ok(())
    }
}

/// Whether an error is about the store, an object or the engine rather than about what was looked up.
fn is_infrastructure(error: &ReconcileError) -> bool {
    matches!(
        error,
        ReconcileError::Store(_) | ReconcileError::Object(_) | ReconcileError::Engine(_)
    )
}
