//! Looks up what an event lacks: on the forge, or in git.

use bailiwick_resources::{ForgeKind, Object, Repository, Schedule};

use super::TriggerController;
use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    Clock, CommitPlace, Commits, Forge as _, ForgeError, Forges, ObjectStore, SecretStore,
    StackSources,
};
use crate::triggers::{Lookup, SourceEvent, lookups};

/// How much of a job's log is read.
const MAX_LOG_BYTES: usize = 256 * 1024;

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources>
    TriggerController<S, W>
{
    /// Asks the forge and git for what the event lacks. A refused lookup stays unknown. A forge that does not
    /// respond, or refuses the credential, is reported after all lookups were tried.
    pub(in crate::controllers) async fn look_up_missing(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
    ) -> Result<(), ReconcileError> {
        let unanswered = self.look_up_all(repository, events).await?;
        unanswered.needed.or(unanswered.log).map_or(Ok(()), Err)
    }

    /// The same, without waiting longer than [`FORGE_TIMEOUT`](super::FORGE_TIMEOUT) for a log, or for anything if
    /// the event was not sent by a forge. A schedule waits longer.
    pub(in crate::controllers) async fn look_up_missing_until_late(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
        schedule: Option<&Schedule>,
    ) -> Result<(), ReconcileError> {
        let Unanswered { needed, log } = self.look_up_all(repository, events).await?;
        let needed = needed.filter(|_| !self.is_late(events, schedule));
        let log = log.filter(|_| !self.is_timed_out(events));
        needed.or(log).map_or(Ok(()), Err)
    }

    async fn look_up_all(
        &self,
        repository: &Object<Repository>,
        events: &mut [SourceEvent],
    ) -> Result<Unanswered, ReconcileError> {
        let rules = self.store.rules().await?;
        let mut unanswered = Unanswered::default();
        for event in events {
            for lookup in lookups(event, &rules) {
                let is_log = matches!(lookup, Lookup::JobLog(_));
                match self.look_up(repository, event, lookup).await {
                    Err(error) if error.is_waited_for() => {
                        let place =
                            if is_log { &mut unanswered.log } else { &mut unanswered.needed };
                        place.get_or_insert(error);
                    }
                    Err(error) if is_infrastructure(&error) => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(unanswered)
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
                let head = match repository.spec.forge {
                    // It has no API: git is asked.
                    ForgeKind::Generic => {
                        let whole = format!("refs/heads/{branch}");
                        self.forges.fetched_commit(repository, &whole, None).await?
                    }
                    ForgeKind::Gitea | ForgeKind::Github | ForgeKind::Local => {
                        self.forges.open(repository).await?.branch(&branch).await?
                    }
                };
                if let Some(head) = head {
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
                event.changed_paths = Some(paths?);
            }
            Lookup::Permission(actor) => {
                match self.forges.open(repository).await?.permission(&actor).await {
                    Ok(rights) => event.learn_rights(rights),
                    // Tried again. A refusal leaves the permission unknown, which grants nothing.
                    Err(away @ (ForgeError::Unavailable(_) | ForgeError::Account(_))) => {
                        return Err(away.into());
                    }
                    Err(
                        ForgeError::Refused(_)
                        | ForgeError::Moved { .. }
                        | ForgeError::Unsupported(_),
                    ) => {}
                }
            }
            Lookup::Place(sha) => {
                let forge = self.forges.open(repository).await?;
                let default_branch = &repository.spec.default_branch;
                match forge.place_of(&sha, default_branch).await? {
                    CommitPlace::Branch(branch) => {
                        event.learn_branch(&branch, &sha);
                        event.branch = Some(branch);
                    }
                    CommitPlace::PullRequest(number) => {
                        event.learn_pull_request(&forge.pull_request(number).await?);
                    }
                    CommitPlace::Unknown => {}
                }
            }
            Lookup::Labels(number) => {
                let forge = self.forges.open(repository).await?;
                if let Some(history) = forge.label_history(number).await? {
                    event.learn_labels(&history);
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

/// The failed lookups.
#[derive(Default)]
struct Unanswered {
    /// Why something is not known that rules judge by.
    needed: Option<ReconcileError>,
    /// Why the log of a job is not known, without which a rule can be evaluated.
    log: Option<ReconcileError>,
}

/// Whether an error is about the store, an object or the engine rather than about what was looked up.
fn is_infrastructure(error: &ReconcileError) -> bool {
    matches!(
        error,
        ReconcileError::Store(_) | ReconcileError::Object(_) | ReconcileError::Engine(_)
    )
}
