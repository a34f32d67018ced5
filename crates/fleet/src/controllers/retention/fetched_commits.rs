//! Commits that were fetched for runs are protected by refs; refs that no run needs are deleted.
//!
//! A commit may be fetched just before its run is stored. So a commit is released only an hour after it was last
//! fetched.

use std::collections::BTreeSet;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, Kind, Moment, Object, Repository,
};

use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::prepared_launch::LAUNCH;
use crate::controllers::retention::{Retention, RetentionController};
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::{ReconcileError, ReconcileSummary};
use crate::ports::{AgentEvents, Clock, Commits, FetchedCommit, FleetStore, Selection};

/// The minimum age of a deleted ref, and the interval between checks.
const MIN_AGE: u64 = 3_600_000;

/// Commits that were first seen and last fetched more than an hour ago. A recent fetch may be for a run that is not
/// stored yet.
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
    /// Releases commits that were fetched for deleted runs.
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
        // All runs are read below, so only if there is something to release.
        if old.is_empty() {
            return;
        }
        let needed = match self.needed_commits().await {
            Ok(needed) => needed,
            // An unreadable run may need any of them: nothing is released.
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
        self.world.release_commits(&repository.spec, &over).await?;
        for one in &over {
            retention.unneeded.remove(&whole(one));
        }
        Ok(true)
    }

    /// The base, comparison and kit commits of all stored runs, because each can be retried. Repositories can share a
    /// checkout, so the commits of all of them count.
    async fn needed_commits(&self) -> Result<BTreeSet<String>, ReconcileError> {
        let mut needed = BTreeSet::new();
        for run in self.store.all(Selection::of(Kind::AgentDispatchRun)).await? {
            let run = run.typed::<AgentDispatchRun>()?;
            needed.extend(run.spec.source_refs.base_sha.clone());
            needed.extend(run.status.pushed.clone());
            needed.insert(run.spec.sha.clone());
        }
        // Attempts of one run often share their launch.
        let mut seen = BTreeSet::new();
        for attempt in self.store.all(Selection::of(Kind::AgentDispatchAttempt)).await? {
            let attempt = attempt.typed::<AgentDispatchAttempt>()?;
            // A sub-agent has no separate launch.
            let Some(launch) = attempt.metadata.annotations.get(LAUNCH) else { continue };
            if !seen.insert(launch.clone()) {
                continue;
            }
            match self.store.prepared(&attempt).await {
                Ok(prepared) => needed.extend(prepared.kit_commit),
                // It cannot be launched any more; the commits of its run are protected anyway.
                Err(ReconcileError::LaunchRecord { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(needed)
    }
}
