//! The queue of runs: pools have a capacity, groups have limits, waiting has a timeout.

mod renewal;
mod revalidation;
mod start_refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_resources::{
    ActionType, AgentApproval, AgentApprovalStatus, AgentDispatchRun, AgentTriggerRule, AnyObject,
    ApprovalPhase, Kind, Moment, Object, RunPhase, RunnerPool, WriteBackTarget,
};

use super::audit_log::{Correlation, subject};
use super::background_jobs::JobFuture;
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, RunEnd};
use super::run_queries::RunQueries as _;
use super::run_status::RunStatusWriter;
use super::summary::Task;
use super::{ReconcileError, ReconcileSummary};
use crate::admission::Inventory;
use crate::admission::admit::PoolUse;
use crate::ports::{
    Clock, Commits, Forges, ObjectStore, SecretStore, Selection, StackSources, Worktrees, Write,
};
use crate::triggers::concurrency::limit;
use crate::wildcards;
use crate::write_back::expire;
use revalidation::Revalidation;
pub(super) use revalidation::Revalidator;

/// How many queued runs are read at a time.
const PAGE_SIZE: usize = 200;

/// How often the whole queue is read, in milliseconds: runs far behind that are cancelled or have waited for too long.
const SWEEP_INTERVAL: u64 = 60_000;

/// The pools without room, so that the runs behind need not be checked in the same pass.
#[derive(Debug, Default)]
struct FullPools(Mutex<BTreeSet<String>>);

impl FullPools {
    fn contains(&self, pool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(pool)
    }

    fn insert(&self, pool: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pool.to_owned());
    }
}

pub(super) struct RunQueue<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    revalidator: Revalidator<S, W>,
    statuses: Arc<RunStatusWriter<S, W>>,
    /// When the whole queue is read again.
    next_sweep: Mutex<Moment>,
}

impl<S, W> RunQueue<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        revalidator: Revalidator<S, W>,
        statuses: Arc<RunStatusWriter<S, W>>,
    ) -> Self {
        Self { store, world, revalidator, statuses, next_sweep: Mutex::default() }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources + Worktrees>
    RunQueue<S, W>
{
    /// Starts queued runs as far as there is room, and queues runs that people have approved.
    pub(super) async fn settle_queue(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        self.expire_approvals(summary).await;
        let waiting = self.settle_all_waiting(summary).await;
        let settled = match waiting {
            Ok(()) => self.settle_all_queued(summary).await,
            Err(error) => Err(error),
        };
        if let Err(error) = settled {
            summary.record("queue", Err(error));
        }
    }

    async fn settle_all_waiting(
        self: &Arc<Self>,
        summary: &mut ReconcileSummary,
    ) -> Result<(), ReconcileError> {
        let waiting = RunPhase::WaitingForApproval.as_str();
        let selection = Selection::of(Kind::AgentDispatchRun).field("status", waiting);
        for run in self.store.all_typed::<AgentDispatchRun>(selection).await? {
            let this = Arc::clone(self);
            let start =
                |run| -> JobFuture { Box::pin(async move { this.settle_waiting(run).await }) };
            self.settle(run, summary, start).await;
        }
        Ok(())
    }

    /// Reads the queue in its order, page by page, until no pool has room for a run that may be on a later page. What
    /// else can happen to a queued run is done for the first page in each pass, and for the others from time to time.
    async fn settle_all_queued(
        self: &Arc<Self>,
        summary: &mut ReconcileSummary,
    ) -> Result<(), ReconcileError> {
        let full = Arc::new(FullPools::default());
        let is_sweep = self.begin_sweep();
        let queued = Selection::of(Kind::AgentDispatchRun);
        let queued = queued.field("status", RunPhase::Queued.as_str());
        let mut selection = Selection { limit: PAGE_SIZE, ..queued };
        loop {
            let page = self.store.list(&selection).await?;
            let runs = page.objects.iter().filter_map(|run| run.typed::<AgentDispatchRun>().ok());
            for run in runs {
                let (this, full) = (Arc::clone(self), Arc::clone(&full));
                let start = |run| -> JobFuture {
                    Box::pin(async move { this.settle_queued(run, &full).await })
                };
                self.settle(run, summary, start).await;
            }
            if page.next.is_none() || !(is_sweep || self.has_room(&full).await?) {
                return Ok(());
            }
            selection.after = page.next;
        }
    }

    async fn settle(
        &self,
        run: Object<AgentDispatchRun>,
        summary: &mut ReconcileSummary,
        start: impl FnOnce(Object<AgentDispatchRun>) -> JobFuture,
    ) {
        let name = run.name().to_owned();
        if run.status.cancel_requested.is_some() || !summary.is_backing_off(Task::Queue, &name) {
            summary.run(&self.world, Task::Queue, &name, start(run)).await;
        }
    }

    /// Whether it is time to read the whole queue; it is not before some time has passed.
    fn begin_sweep(&self) -> bool {
        let mut next = self.next_sweep.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.world.now();
        // After the clock was set back, the time is not waited for.
        let is_due = now >= *next || *next > now.plus_millis(SWEEP_INTERVAL);
        if is_due {
            *next = now.plus_millis(SWEEP_INTERVAL);
        }
        is_due
    }

    /// Whether runs are queued for a pool that has room.
    async fn has_room(&self, full: &FullPools) -> Result<bool, ReconcileError> {
        let mut pools = self.store.all_typed::<RunnerPool>(Selection::of(Kind::RunnerPool)).await?;
        pools.retain(|pool| !pool.spec.paused && !full.contains(pool.name()));
        let active = self.store.active_runs(&pools).await?;
        for pool in &pools {
            let active = active.get(pool.name()).copied().unwrap_or_default();
            if active < pool.spec.capacity && self.store.queued_runs(pool.name()).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Expires approvals that were not answered in time or that no run needs any more.
    async fn expire_approvals(&self, summary: &mut ReconcileSummary) {
        let selection = Selection::of(Kind::AgentApproval).field("phase", "pending");
        let asked = match self.store.all_typed::<AgentApproval>(selection).await {
            Ok(asked) => asked,
            Err(error) => return summary.record("approvals", Err(error)),
        };
        for mut approval in asked {
            let now = self.world.now();
            let late = expire(&approval.spec, &approval.status, now);
            let name = approval.name().to_owned();
            let status = match late {
                Some(late) => Ok(Some(late)),
                None => self.expired_with_its_run(&approval).await,
            };
            let status = match status {
                Ok(Some(status)) => status,
                Ok(None) => continue,
                Err(error) => {
                    summary.record(&name, Err(error));
                    continue;
                }
            };
            approval.status = status;
            let result = self.store_expired(&approval, now).await;
            summary.record(&name, result);
        }
    }

    /// The status of an approval whose run has ended. The report of that end is an exception: it needs an approval
    /// then.
    pub(super) async fn expired_with_its_run(
        &self,
        approval: &Object<AgentApproval>,
    ) -> Result<Option<AgentApprovalStatus>, ReconcileError> {
        if approval.spec.action.kind == ActionType::WriteBack(WriteBackTarget::CheckStatus) {
            return Ok(None);
        }
        let run = self.store.typed::<AgentDispatchRun>(&approval.spec.dispatch_run).await?;
        let over = run.is_some_and(|run| run.status.phase.is_final());
        Ok(over.then(|| AgentApprovalStatus {
            phase: ApprovalPhase::Expired,
            decided_at: Some(self.world.now()),
            comment: Some("its run has ended".to_owned()),
            ..approval.status.clone()
        }))
    }

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

    /// Settles a run that waits for approvals before its start.
    async fn settle_waiting(&self, run: Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        if run.status.started_at.is_some() {
            return Ok(false);
        }
        if let Some(why) = run.status.cancel_requested.clone() {
            return self.statuses.end(run, RunEnd::cancelled(why)).await;
        }
        // Approvals of earlier results do not matter for the start.
        let asked = self.store.start_approvals(&run).await?;
        let of = |phase| asked.iter().find(|one| one.status.phase == phase);
        if let Some(no) = of(ApprovalPhase::Rejected).or(of(ApprovalPhase::Expired)) {
            let why = format!("{} was not approved", no.name());
            return self.statuses.end(run, RunEnd::failed(why)).await;
        }
        if asked.is_empty() || of(ApprovalPhase::Pending).is_some() {
            return Ok(false);
        }
        let mut run = run;
        run.status.phase = RunPhase::Queued;
        run.status.queue_entered_at = Some(self.world.now());
        self.store.store_status(&run, self.world.now()).await
    }

    async fn settle_queued(
        &self,
        run: Object<AgentDispatchRun>,
        full: &FullPools,
    ) -> Result<bool, ReconcileError> {
        if let Some(why) = run.status.cancel_requested.clone() {
            return self.statuses.end(run, RunEnd::cancelled(why)).await;
        }
        for name in &run.status.queue_behind {
            let before = self.store.typed::<AgentDispatchRun>(name).await?;
            if before.is_some_and(|before| !agent_has_ended(&before)) {
                return Ok(false);
            }
        }
        let Some(pool) = self.store.typed::<RunnerPool>(&run.spec.runner_pool).await? else {
            let why = format!("the pool `{}` is gone", run.spec.runner_pool);
            return self.statuses.end(run, RunEnd::failed(why)).await;
        };
        if pool.spec.trust_tier != run.spec.trust_tier {
            let why = format!("the pool `{}` does not take such work any more", pool.name());
            return self.statuses.end(run, RunEnd::failed(why)).await;
        }
        let taken = &pool.spec.allowed_repositories;
        if !taken.is_empty() && !wildcards::any(taken, &run.spec.repository) {
            let why = format!("the pool `{}` does not take its repository any more", pool.name());
            return self.statuses.end(run, RunEnd::failed(why)).await;
        }
        let entered = run.status.queue_entered_at;
        let queue_timeout = pool.spec.queue_timeout;
        let late = entered.zip(queue_timeout).map(|(at, span)| at.plus_millis(span.millis()));
        if late.is_some_and(|late| self.world.now() >= late) {
            return self.statuses.end(run, EndCode::QueueTimeout.because("no pool had room")).await;
        }
        if full.contains(pool.name()) {
            return Ok(false);
        }
        let counted = self.counted(&pool).await?;
        if pool.spec.paused || counted.active >= pool.spec.capacity {
            // The runs behind it need not be checked in this pass.
            full.insert(pool.name());
            return Ok(false);
        }
        if self.is_group_full(&run).await? {
            return Ok(false);
        }
        let (mut run, more) = match self.revalidator.revalidate(run).await? {
            Revalidation::Settled => return Ok(true),
            Revalidation::MayStart { run, writes } => (*run, writes),
        };
        run.status.phase = RunPhase::Running;
        run.status.started_at = Some(self.world.now());
        let mut pool = pool;
        pool.status.active = counted.active + 1;
        pool.status.queued = counted.queued.saturating_sub(1);
        // One commit: a concurrent start in this pool conflicts on the pool's version.
        let mut writes =
            vec![Write::Status(AnyObject::of(&pool)?), Write::Status(AnyObject::of(&run)?)];
        writes.extend(more);
        self.store.commit(writes, self.world.now()).await?;
        if counted.active + 1 >= pool.spec.capacity {
            full.insert(pool.name());
        }
        Ok(true)
    }

    /// Whether the group of a run has reached its limit. A retry does not displace other runs.
    async fn is_group_full(&self, run: &Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let (Some(group), Some(rule)) = (&run.spec.concurrency_group, &run.spec.trigger_rule)
        else {
            return Ok(false);
        };
        let Some(rule) = self.store.typed::<AgentTriggerRule>(rule).await? else {
            return Ok(false);
        };
        let Some(most) = limit(&rule.spec.concurrency_policy) else { return Ok(false) };
        let at_work = |other: &Object<AgentDispatchRun>| {
            other.status.started_at.is_some() && !agent_has_ended(other)
        };
        let others = self.store.unfinished(group).await?;
        let others = others.iter().filter(|other| other.name() != run.name() && at_work(other));
        Ok(others.count() >= most)
    }

    /// Updates how full the pools are if runs changed their phase in this pass.
    pub(super) async fn count_pools(&self, summary: &mut ReconcileSummary) {
        if !summary.runs_moved {
            return;
        }
        let counted = async {
            let pools = self.store.all(Selection::of(Kind::RunnerPool)).await?;
            let used = self.store.pool_use(&Inventory::new(pools)).await?;
            self.store.update_pool_statuses(&used, self.world.now()).await
        };
        let counted = counted.await;
        summary.record("pools", counted);
    }

    async fn counted(&self, pool: &Object<RunnerPool>) -> Result<PoolUse, ReconcileError> {
        let inventory = Inventory::new([AnyObject::of(pool)?]);
        let used: BTreeMap<_, _> = self.store.pool_use(&inventory).await?;
        Ok(used.get(pool.name()).copied().unwrap_or_default())
    }
}

/// Whether the agent of a run has ended; only write-backs may be left.
pub(super) fn agent_has_ended(run: &Object<AgentDispatchRun>) -> bool {
    run.status.phase.is_final() || !run.status.write_backs.is_empty()
}
