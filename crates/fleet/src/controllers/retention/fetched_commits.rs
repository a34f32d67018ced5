//! Commits that were fetched for runs are kept by refs; those that no run needs are released.
//!
//! A commit may be fetched just before its run is stored. So a commit is released only an hour after it was last
//! fetched.

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, Kind, Moment, Object, Repository,
};

use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::retention::{Retention, RetentionController};
use crate::controllers::run_admission::LAUNCH;
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{AgentEvents, Clock, Commits, FetchedCommit, FleetStore, Selection};

/// How long it must have been held, and how often that is looked at.
const MIN_AGE: u64 = 3_600_000;

/// What has been held for an hour since it was first seen, and since anybody last took hold of it: the one who does
/// may be about to put it into a run.
fn unused_for_long(
    repository: &str,
    held: Vec<FetchedCommit>,
    retention: &mut Retention,
    now: Moment,
) -> Vec<FetchedCommit> {
    let seen = &mut retention.unneeded;
    seen.retain(|(of, name), _| of != repository || held.iter().any(|one| one.name == *name));
    let is_old = |one: &FetchedCommit| {
        let first = seen.entry((repository.to_owned(), one.name.clone())).or_insert(now);
        *first = one.at.map_or(*first, |at| at.max(*first));
        now.millis().saturating_sub(first.millis()) >= MIN_AGE
    };
    held.into_iter().filter(is_old).collect()
}

impl<S: FleetStore, E: AgentEvents, W: Clock + Commits> RetentionController<S, E, W> {
    /// Lets go of what was fetched for runs that are gone.
    pub(super) async fn prune_fetched(
        &self,
        retention: &mut Retention,
        summary: &mut ReconcileSummary,
    ) {
        let now = self.world.now();
        let since = |then: Moment| now.millis().saturating_sub(then.millis());
        if retention.looked.is_some_and(|looked| since(looked) < MIN_AGE) {
            return;
        }
        retention.looked = Some(now);
        let all = match self.store.all_typed::<Repository>(Selection::of(Kind::Repository)).await {
            Ok(all) => all,
            Err(error) => return summary.record("repositories", Err(error)),
        };
        let mut old = Vec::new();
        for repository in all {
            match self.world.fetched_commits(&repository.spec).await {
                Ok(held) => {
                    old.push((unused_for_long(repository.name(), held, retention, now), repository))
                }
                Err(why) => summary.record(repository.name(), Err(ReconcileError::World(why))),
            }
        }
        old.retain(|(held, _)| !held.is_empty());
        // All runs are read for it: not while a server starts, and not for nothing.
        if old.is_empty() {
            return;
        }
        let needed = match self.needed_commits().await {
            Ok(needed) => needed,
            // What cannot be read may need any of them: nothing goes.
            Err(error) => return summary.record("commits that were fetched", Err(error)),
        };
        for (held, repository) in old {
            let result = self.prune_repository(&repository, held, &needed, retention).await;
            summary.record(repository.name(), result);
        }
    }

    async fn prune_repository(
        &self,
        repository: &Object<Repository>,
        held: Vec<FetchedCommit>,
        needed: &BTreeSet<String>,
        retention: &mut Retention,
    ) -> Result<bool, ReconcileError> {
        let (kept, over): (Vec<FetchedCommit>, Vec<FetchedCommit>) =
            held.into_iter().partition(|one| needed.contains(&one.name));
        let whole = |one: &FetchedCommit| (repository.name().to_owned(), one.name.clone());
        for one in &kept {
            retention.unneeded.remove(&whole(one));
        }
        if over.is_empty() {
            return Ok(false);
        }
        self.world.release_commits(&repository.spec, &over).await.map_err(ReconcileError::World)?;
        for one in &over {
            retention.unneeded.remove(&whole(one));
        }
        Ok(true)
    }

    /// Where runs start from, what they are compared with, and what binds them: all that are kept may be
    /// tried again. Several repositories may share a checkout, and a commit has one name in all of them: so
    /// it does not matter whose run it is.
    async fn needed_commits(&self) -> Result<BTreeSet<String>, ReconcileError> {
        let mut needed = BTreeSet::new();
        for run in self.store.all(Selection::of(Kind::AgentDispatchRun)).await? {
            let run = run.typed::<AgentDispatchRun>()?;
            needed.extend(run.spec.source_refs.base_sha.clone());
            needed.extend(run.status.pushed.clone());
            needed.insert(run.spec.sha.clone());
        }
        // Attempts of one run are often launched with the same.
        let mut seen = BTreeSet::new();
        for attempt in self.store.all(Selection::of(Kind::AgentDispatchAttempt)).await? {
            let attempt = attempt.typed::<AgentDispatchAttempt>()?;
            // A child has none of its own: it is bound as its parent is.
            let Some(launch) = attempt.metadata.annotations.get(LAUNCH) else { continue };
            if !seen.insert(launch.clone()) {
                continue;
            }
            match self.store.prepared(&attempt).await {
                Ok(prepared) => needed.extend(prepared.kit_from),
                // It is gone or broken, and nobody can launch it: what its run names is held all the same.
                Err(ReconcileError::LaunchRecord { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(needed)
    }
}
