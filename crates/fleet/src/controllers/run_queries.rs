//! Queries for runs: their groups, executions, approvals, pools, launches, sessions and deliveries.

use std::collections::BTreeMap;
use std::future::Future;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    ActionType, AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AgentStack,
    AgentTriggerExecution, AnyObject, ApprovalPhase, AuditLevel, Kind, Moment, Object, Repository,
    RunCost, RunPhase, RunnerPool, WebhookDelivery,
};
use serde::Deserialize as _;

use super::costs::added;
use super::launch::agent_of;
use super::objects::ObjectQueries;
use super::prepared_launch::{LAUNCH, PreparedLaunch};
use super::subagent_runs::is_child;
use super::trigger_controller::wire_delivery;
use super::{LaunchRecordProblem, ReconcileError};
use crate::admission::Inventory;
use crate::admission::admit::PoolUse;
use crate::ports::{Selection, Write};
use crate::triggers::{SourceEvent, wire};

/// The phases of a run that has not ended, in the order in which it passes through them. A run that moves on while
/// they are listed one by one is found in the phase that it leaves or in the one that it enters.
const OPEN_PHASES: [RunPhase; 5] = [
    RunPhase::Pending,
    RunPhase::WaitingForApproval,
    RunPhase::Queued,
    RunPhase::Running,
    RunPhase::WaitingForApproval,
];

/// A delivery's repository and events, or why it has none.
pub(super) type DeliveryEvents = Result<(Object<Repository>, Vec<SourceEvent>), DeliveryUnreadable>;

/// Why the events of a delivery are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DeliveryUnreadable {
    #[error("the repository `{0}` is gone")]
    RepositoryGone(String),
    #[error("its bytes are not kept any more")]
    PayloadExpired,
    #[error(transparent)]
    Payload(#[from] wire::WireError),
}

/// Reads about runs and what belongs to them.
pub(super) trait RunQueries: ObjectQueries {
    /// The runs of a group that have not ended, in the order in which they were created.
    fn unfinished(
        &self,
        group: &str,
    ) -> impl Future<Output = Result<Vec<Object<AgentDispatchRun>>, ReconcileError>> + Send {
        async move {
            let mut found = BTreeMap::new();
            for phase in OPEN_PHASES {
                let selection = Selection::of(Kind::AgentDispatchRun)
                    .field("group", group)
                    .field("status", phase.as_str());
                for run in self.all_typed::<AgentDispatchRun>(selection).await? {
                    found.insert(run.name().to_owned(), run);
                }
            }
            let mut runs: Vec<_> = found.into_values().collect();
            // IDs sort by creation time.
            let created = |run: &Object<AgentDispatchRun>| {
                let metadata = &run.metadata;
                (metadata.creation_timestamp, metadata.uid.len(), metadata.uid.clone())
            };
            runs.sort_by_key(created);
            Ok(runs)
        }
    }

    /// The latest executions with a value that led to a run, at most `limit` for each decision. Earlier ones are
    /// never read.
    fn latest_of(
        &self,
        field: &'static str,
        value: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Object<AgentTriggerExecution>>, ReconcileError>> + Send
    {
        async move {
            let mut found = Vec::new();
            for decision in ["created", "coalesced", "waiting-for-approval"] {
                let selection = Selection {
                    newest_first: true,
                    limit,
                    ..Selection::of(Kind::AgentTriggerExecution)
                        .field(field, value)
                        .field("decision", decision)
                };
                for object in self.list(&selection).await?.objects {
                    found.push(object.typed::<AgentTriggerExecution>()?);
                }
            }
            Ok(found)
        }
    }

    /// The approvals that a run needs before it starts.
    fn start_approvals(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> impl Future<Output = Result<Vec<Object<AgentApproval>>, ReconcileError>> + Send {
        async move {
            let selection = Selection::of(Kind::AgentApproval).field("run", run.name());
            let mut asked = self.all_required::<AgentApproval>(selection).await?;
            asked.retain(|one| match one.spec.action.kind {
                ActionType::SecretAccess | ActionType::NetworkExpanded | ActionType::Escalation => {
                    true
                }
                ActionType::WriteBack(_) | ActionType::ToolCall => false,
            });
            Ok(asked)
        }
    }

    /// Whether every approval that a run needs before it starts was given.
    fn may_start(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> impl Future<Output = Result<bool, ReconcileError>> + Send {
        async move {
            let asked = self.start_approvals(run).await?;
            Ok(asked.iter().all(|one| one.status.phase == ApprovalPhase::Approved))
        }
    }

    /// The launch of an attempt, exactly as it was admitted.
    fn prepared(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> impl Future<Output = Result<PreparedLaunch, ReconcileError>> + Send {
        async move {
            let unusable = |problem: LaunchRecordProblem| ReconcileError::LaunchRecord {
                attempt: attempt.name().to_owned(),
                problem,
            };
            let digest = attempt.metadata.annotations.get(LAUNCH);
            let digest = digest.ok_or_else(|| unusable(LaunchRecordProblem::Unnamed))?;
            let bytes = self.blob(digest).await?;
            let bytes = bytes.ok_or_else(|| unusable(LaunchRecordProblem::Gone))?;
            if Sha256Hex::of(&bytes).as_str() != digest {
                return Err(unusable(LaunchRecordProblem::Altered));
            }
            serde_json::from_slice(&bytes)
                .map_err(|error| unusable(LaunchRecordProblem::Unreadable(error.to_string())))
        }
    }

    /// How full the pools of an inventory are.
    fn pool_use(
        &self,
        inventory: &Inventory,
    ) -> impl Future<Output = Result<BTreeMap<String, PoolUse>, ReconcileError>> + Send {
        async move {
            let pools = inventory.readable::<RunnerPool>()?;
            let mut used = BTreeMap::new();
            for (pool, active) in self.active_runs(&pools).await? {
                let queued = self.queued_runs(&pool).await?;
                used.insert(pool, PoolUse { active, queued });
            }
            Ok(used)
        }
    }

    /// How many runs use a slot of each pool.
    fn active_runs(
        &self,
        pools: &[Object<RunnerPool>],
    ) -> impl Future<Output = Result<BTreeMap<String, u32>, ReconcileError>> + Send {
        async move {
            let mut active: BTreeMap<String, u32> =
                pools.iter().map(|pool| (pool.name().to_owned(), 0)).collect();
            for phase in [RunPhase::Running, RunPhase::WaitingForApproval] {
                let mut selection =
                    Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
                if let [only] = pools {
                    selection = selection.field("pool", only.name());
                }
                for run in self.all_typed::<AgentDispatchRun>(selection).await? {
                    let Some(count) = active.get_mut(&run.spec.runner_pool) else { continue };
                    // A run that waits before its start uses no slot, nor does one whose agent has ended and whose
                    // results wait for people.
                    let has_agent =
                        run.status.started_at.is_some() && run.status.write_backs.is_empty();
                    if has_agent && !is_child(&run) {
                        *count += 1;
                    }
                }
            }
            Ok(active)
        }
    }

    /// How many runs wait for a slot of a pool. There can be very many: they are counted, and not read. No sub-agent is
    /// among them.
    fn queued_runs(&self, pool: &str) -> impl Future<Output = Result<u32, ReconcileError>> + Send {
        let queued = ("status", RunPhase::Queued.as_str());
        async move {
            let count = self.count_both(Kind::AgentDispatchRun, queued, ("pool", pool)).await?;
            Ok(u32::try_from(count).unwrap_or(u32::MAX))
        }
    }

    /// Stores how full each pool is, where that changed.
    fn update_pool_statuses(
        &self,
        used: &BTreeMap<String, PoolUse>,
        now: Moment,
    ) -> impl Future<Output = Result<bool, ReconcileError>> + Send {
        async move {
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
            self.commit(writes, now).await?;
            Ok(true)
        }
    }

    /// The usage of earlier attempts in the conversation that this one continues.
    fn spent_before(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> impl Future<Output = Result<RunCost, ReconcileError>> + Send {
        async move {
            let agent = agent_of(attempt);
            let mut spent = RunCost::default();
            if agent == attempt.name() {
                return Ok(spent);
            }
            for name in run.status.attempts.iter().filter(|name| *name != attempt.name()) {
                let earlier = self.typed::<AgentDispatchAttempt>(name).await?;
                if let Some(earlier) = earlier.filter(|earlier| agent_of(earlier) == agent) {
                    spent = added(spent, earlier.status.cost);
                }
            }
            Ok(spent)
        }
    }

    /// The adapter that a run was admitted with.
    fn adapter_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> impl Future<Output = Result<String, ReconcileError>> + Send {
        async move {
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
    }

    /// Whether an attempt recorded enough of its calls to decide which were decided. Otherwise, its conversation is
    /// never continued.
    fn keeps_inputs(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> impl Future<Output = Result<bool, ReconcileError>> + Send {
        async move {
            match self.prepared(attempt).await {
                Ok(prepared) => Ok(prepared.limits.audit_level >= AuditLevel::Inputs),
                Err(error @ ReconcileError::Store(_)) => Err(error),
                Err(_) => Ok(false),
            }
        }
    }

    /// The repository and events of a delivery.
    fn read_delivery(
        &self,
        delivery: &Object<WebhookDelivery>,
    ) -> impl Future<Output = Result<DeliveryEvents, ReconcileError>> + Send {
        async move {
            let spec = &delivery.spec;
            let Some(repository) = self.typed::<Repository>(&spec.repository).await? else {
                return Ok(Err(DeliveryUnreadable::RepositoryGone(spec.repository.clone())));
            };
            let Some(payload) = self.blob(&spec.payload_digest).await? else {
                return Ok(Err(DeliveryUnreadable::PayloadExpired));
            };
            Ok(match wire::read(&wire_delivery(delivery, &repository), &payload) {
                Ok(events) => Ok((repository, events)),
                Err(error) => Err(error.into()),
            })
        }
    }
}

impl<S: ObjectQueries> RunQueries for S {}
