//! The queue of runs: pools have capacity, groups have limits, and nothing waits for ever.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentTriggerExecution, AgentTriggerRule, AnyObject,
    ApprovalPhase, Kind, Moment, Object, Resource, RunPhase, RunnerPool,
};

use super::audit_log::{Correlation, ended, subject};
use super::outcome::{EndCode, RunEnd};
use super::revalidation::Revalidation;
use super::run_status::When;
use super::{ControlPlane, ReconcileError, Turn};
use crate::admission::admit::PoolUse;
use crate::admission::{Inventory, wildcards};
use crate::ports::{Engine, FleetStore, Selection, World, Write};
use crate::triggers::concurrency::limit;
use crate::write_back::expire;

/// The phases of a run that is not at an end, in the order in which it goes through them: one that moves on
/// while they are looked at is found, by the one that it leaves or by the one that it comes to.
const FORWARD: [RunPhase; 5] = [
    RunPhase::Pending,
    RunPhase::WaitingForApproval,
    RunPhase::Queued,
    RunPhase::Running,
    RunPhase::WaitingForApproval,
];

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Lets runs out of the queue as far as there is room, and takes in those that people have approved.
    pub(super) async fn settle_queue(&self, turn: &mut Turn) {
        self.expire_approvals(turn).await;
        let mut full = BTreeSet::new();
        for phase in [RunPhase::WaitingForApproval, RunPhase::Queued] {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            let runs = match self.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return turn.note("queue", Err(error)),
            };
            for run in runs {
                let name = run.name().to_owned();
                if run.status.cancel_requested.is_none() && turn.is_backing_off("queue", &name) {
                    continue;
                }
                let result = if phase == RunPhase::Queued {
                    self.settle_queued(run, &mut full).await
                } else {
                    self.settle_waiting(run).await
                };
                turn.tried("queue", &name, result);
            }
        }
    }

    /// Questions that nobody has answered in time are answered: no.
    async fn expire_approvals(&self, turn: &mut Turn) {
        let selection = Selection::of(Kind::AgentApproval).field("phase", "pending");
        let asked = match self.all_typed::<AgentApproval>(selection).await {
            Ok(asked) => asked,
            Err(error) => return turn.note("approvals", Err(error)),
        };
        for mut approval in asked {
            let now = self.world.now();
            let late = expire(&approval.spec, &approval.status, now);
            let status = match late {
                Some(late) => Some(late),
                None => self.moot(&approval).await.unwrap_or_default(),
            };
            let Some(status) = status else { continue };
            approval.status = status;
            let name = approval.name().to_owned();
            let result = self.store_expired(&approval, now).await;
            turn.note(&name, result);
        }
    }

    /// Keeps that nobody has answered, and a line of it.
    async fn store_expired(
        &self,
        approval: &Object<AgentApproval>,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let spec = &approval.spec;
        let joined = Correlation::default()
            .with("run", Some(&spec.dispatch_run))
            .with("attempt", spec.attempt.as_deref())
            .with("artifactDigest", Some(&spec.artifact_digest));
        let detail = serde_json::json!({ "phase": approval.status.phase, "action": spec.action });
        let line = joined.line(now, "AgentApprovalExpired", subject(approval), detail);
        self.store.commit(vec![Write::Status(AnyObject::of(approval)?), line], now).await?;
        Ok(true)
    }

    /// Keeps the status of an object.
    pub(super) async fn store_status<R: Resource>(
        &self,
        object: &Object<R>,
    ) -> Result<bool, ReconcileError> {
        self.store.commit(vec![Write::Status(AnyObject::of(object)?)], self.world.now()).await?;
        Ok(true)
    }

    /// A run that waits for people before it is started.
    async fn settle_waiting(&self, run: Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        if run.status.started_at.is_some() {
            return Ok(false);
        }
        if let Some(why) = run.status.cancel_requested.clone() {
            return self.end(run, RunEnd::cancelled(why)).await;
        }
        // What was asked about its earlier work has nothing to do with whether it starts.
        let asked = self.start_approvals(&run).await?;
        let of = |phase| asked.iter().find(|one| one.status.phase == phase);
        if let Some(no) = of(ApprovalPhase::Rejected).or(of(ApprovalPhase::Expired)) {
            let why = format!("{} was not approved", no.name());
            return self.end(run, RunEnd::failed(why)).await;
        }
        if asked.is_empty() || of(ApprovalPhase::Pending).is_some() {
            return Ok(false);
        }
        let mut run = run;
        run.status.phase = RunPhase::Queued;
        run.status.queue_entered_at = Some(self.world.now());
        self.store_status(&run).await
    }

    async fn settle_queued(
        &self,
        run: Object<AgentDispatchRun>,
        full: &mut BTreeSet<String>,
    ) -> Result<bool, ReconcileError> {
        if let Some(why) = run.status.cancel_requested.clone() {
            return self.end(run, RunEnd::cancelled(why)).await;
        }
        for name in &run.status.queue_behind {
            let before = self.typed::<AgentDispatchRun>(name).await?;
            if before.is_some_and(|before| !has_worked(&before)) {
                return Ok(false);
            }
        }
        let Some(pool) = self.typed::<RunnerPool>(&run.spec.runner_pool).await? else {
            let why = format!("the pool `{}` is gone", run.spec.runner_pool);
            return self.end(run, RunEnd::failed(why)).await;
        };
        if pool.spec.trust_tier != run.spec.trust_tier {
            let why = format!("the pool `{}` does not take such work any more", pool.name());
            return self.end(run, RunEnd::failed(why)).await;
        }
        let taken = &pool.spec.allowed_repositories;
        if !taken.is_empty() && !wildcards::any(taken, &run.spec.repository) {
            let why = format!("the pool `{}` does not take its repository any more", pool.name());
            return self.end(run, RunEnd::failed(why)).await;
        }
        let entered = run.status.queue_entered_at.unwrap_or_default();
        let late = pool.spec.queue_timeout.map(|span| entered.plus_millis(span.millis()));
        if late.is_some_and(|late| self.world.now() >= late) {
            return self.end(run, EndCode::QueueTimeout.because("no pool had room")).await;
        }
        if full.contains(pool.name()) {
            return Ok(false);
        }
        let counted = self.counted(&pool).await?;
        if pool.spec.paused || counted.active >= pool.spec.capacity {
            // Those behind it need not ask in this turn.
            full.insert(pool.name().to_owned());
            return Ok(false);
        }
        if self.is_group_full(&run).await? {
            return Ok(false);
        }
        let (mut run, more) = match self.revalidate(run).await? {
            Revalidation::Settled => return Ok(true),
            Revalidation::Stands { run, writes } => (*run, writes),
        };
        run.status.phase = RunPhase::Running;
        run.status.started_at = Some(self.world.now());
        let mut pool = pool;
        pool.status.active = counted.active + 1;
        pool.status.queued = counted.queued.saturating_sub(1);
        // Both or neither: the one who else takes a place in this pool changes it first.
        let mut writes =
            vec![Write::Status(AnyObject::of(&pool)?), Write::Status(AnyObject::of(&run)?)];
        writes.extend(more);
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// Whether as many of its group are at work as its rule lets. A retry asks nobody else for its place.
    async fn is_group_full(&self, run: &Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let (Some(group), Some(rule)) = (&run.spec.concurrency_group, &run.spec.trigger_rule)
        else {
            return Ok(false);
        };
        let Some(rule) = self.typed::<AgentTriggerRule>(rule).await? else { return Ok(false) };
        let Some(most) = limit(&rule.spec.concurrency_policy) else { return Ok(false) };
        let at_work = |other: &Object<AgentDispatchRun>| {
            other.status.started_at.is_some() && !has_worked(other)
        };
        let others = self.unfinished(group).await?;
        let others = others.iter().filter(|other| other.name() != run.name() && at_work(other));
        Ok(others.count() >= most)
    }

    /// The runs of a group that are not at an end, however many are.
    pub(super) async fn unfinished(
        &self,
        group: &str,
    ) -> Result<Vec<Object<AgentDispatchRun>>, ReconcileError> {
        let mut found = BTreeMap::new();
        for phase in FORWARD {
            let selection = Selection::of(Kind::AgentDispatchRun)
                .field("group", group)
                .field("status", phase.as_str());
            for run in self.all_typed::<AgentDispatchRun>(selection).await? {
                found.insert(run.name().to_owned(), run);
            }
        }
        let mut runs: Vec<_> = found.into_values().collect();
        // As they came, whatever phase they were found in: ids are made in that order.
        let came = |run: &Object<AgentDispatchRun>| {
            let metadata = &run.metadata;
            (metadata.creation_timestamp, metadata.uid.len(), metadata.uid.clone())
        };
        runs.sort_by_key(came);
        Ok(runs)
    }

    /// The last executions with a value of which something came, so many for each way in which it did: earlier
    /// ones are never asked for, however many there are.
    pub(super) async fn latest_of(
        &self,
        field: &'static str,
        value: &str,
        limit: usize,
    ) -> Result<Vec<Object<AgentTriggerExecution>>, ReconcileError> {
        let mut found = Vec::new();
        for decision in ["created", "coalesced", "waiting-for-approval"] {
            let selection = Selection {
                newest_first: true,
                limit,
                ..Selection::of(Kind::AgentTriggerExecution)
                    .field(field, value)
                    .field("decision", decision)
            };
            let page = self.store.list(&selection).await?;
            for object in page.objects {
                found.push(object.typed::<AgentTriggerExecution>()?);
            }
        }
        Ok(found)
    }

    /// Says of every pool how full it is, where that is news.
    pub(super) async fn update_pool_statuses(
        &self,
        used: &BTreeMap<String, PoolUse>,
    ) -> Result<bool, ReconcileError> {
        let mut writes = Vec::new();
        for mut pool in self.all_typed::<RunnerPool>(Selection::of(Kind::RunnerPool)).await? {
            let Some(used) = used.get(pool.name()) else { continue };
            let status = &mut pool.status;
            if (status.active, status.queued) != (used.active, used.queued) {
                (status.active, status.queued) = (used.active, used.queued);
                writes.push(Write::Status(AnyObject::of(&pool)?));
            }
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// Counts again how full the pools are, after a turn in which runs have moved.
    pub(super) async fn count_pools(&self, turn: &mut Turn) {
        if !turn.runs_moved {
            return;
        }
        let counted = async {
            let pools = self.all(Selection::of(Kind::RunnerPool)).await?;
            let used = self.pool_use(&Inventory::new(pools)).await?;
            self.update_pool_statuses(&used).await
        };
        let counted = counted.await;
        turn.note("pools", counted);
    }

    async fn counted(&self, pool: &Object<RunnerPool>) -> Result<PoolUse, ReconcileError> {
        let inventory = Inventory::new([AnyObject::of(pool)?]);
        let used: BTreeMap<_, _> = self.pool_use(&inventory).await?;
        Ok(used.get(pool.name()).copied().unwrap_or_default())
    }

    /// Ends a run.
    pub(super) async fn end(
        &self,
        run: Object<AgentDispatchRun>,
        end: RunEnd,
    ) -> Result<bool, ReconcileError> {
        self.end_with(run, end, Vec::new()).await
    }

    /// Ends a run, and says more of it in the same commit.
    pub(super) async fn end_with(
        &self,
        mut run: Object<AgentDispatchRun>,
        end: RunEnd,
        mut writes: Vec<Write>,
    ) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        run.status.phase = end.phase;
        run.status.terminal_reason = Some(end.to_string());
        run.status.completed_at = Some(now);
        self.with_conditions(&mut run, When::Ending(end.code)).await?;
        writes.extend([Write::Status(AnyObject::of(&run)?), ended(&run, now)]);
        self.store.commit(writes, now).await?;
        Ok(true)
    }
}

/// Whether the agent of a run has ended: what is left of it, if anything, is to be written or waits for people.
pub(super) fn has_worked(run: &Object<AgentDispatchRun>) -> bool {
    run.status.phase.is_final() || !run.status.write_backs.is_empty()
}
