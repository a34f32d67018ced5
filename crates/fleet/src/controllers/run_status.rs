//! The conditions of runs: context, workspace, runner, session, approvals and results.
//!
//! A run that has not ended is updated with everything else; one that ends gets its last conditions in the same
//! commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_resources::{
    ActionType, AgentApproval, AgentArtifact, AgentContextBundle, AgentDispatchAttempt,
    AgentDispatchRun, AgentReviewArtifact, AgentStack, AgentWorkspace, AnyObject, ApprovalPhase,
    ConditionType, Kind, Object, Reason, RebaseState, RunPhase, RunnerPool, TrustTier,
    WorkspaceState, readable, settle,
};

use super::audit_log::ended;
use super::dependencies::dependencies;
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, RunEnd};
use super::run_queries::RunQueries as _;
use super::run_queue::agent_has_ended;
use super::subagent_runs::is_child;
use super::workspace_controller::{NOT_REUSED, TAKEN_OVER};
use super::{ReconcileError, ReconcileSummary};
use crate::admission::Inventory;
use crate::admission::admit::PoolUse;
use crate::admission::conditions::{
    ApprovalFacts, ArtifactFacts, ContextFacts, RunFacts, RunnerFacts, SessionFacts,
    WorkspaceFacts, run_conditions,
};
use crate::ports::{Clock, ObjectStore, Selection, Worktrees, Write};

/// When the conditions of a run are computed.
#[derive(Clone, Copy)]
pub(super) enum When<'a> {
    /// It has not ended; with how full the pools are.
    Open(&'a BTreeMap<String, PoolUse>),
    /// It is about to be stored as ended, with its results and the code of its end.
    Ended(Option<EndCode>),
}

impl When<'_> {
    fn end_code(self) -> Option<EndCode> {
        match self {
            Self::Open(_) => None,
            Self::Ended(code) => code,
        }
    }
}

/// Writes the conditions and the ends of runs.
pub(super) struct RunStatusWriter<S, W> {
    store: Arc<S>,
    world: Arc<W>,
}

impl<S, W> RunStatusWriter<S, W> {
    pub(super) fn new(store: Arc<S>, world: Arc<W>) -> Self {
        Self { store, world }
    }
}

impl<S: ObjectStore, W: Clock + Worktrees> RunStatusWriter<S, W> {
    /// Updates the conditions of every run that has not ended.
    pub(super) async fn update_run_statuses(
        &self,
        inventory: &Inventory,
        summary: &mut ReconcileSummary,
    ) {
        let used = match self.store.pool_use(inventory).await {
            Ok(used) => used,
            Err(error) => return summary.record("pools", Err(error)),
        };
        let stated = self.store.update_pool_statuses(&used, self.world.now()).await;
        summary.record("pools", stated);
        let open =
            [RunPhase::Pending, RunPhase::Queued, RunPhase::WaitingForApproval, RunPhase::Running];
        for phase in open {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            let runs = match self.store.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return summary.record("runs", Err(error)),
            };
            for run in runs {
                let name = run.name().to_owned();
                let result = self.update_run_status(run, &used).await;
                summary.record(&name, result);
            }
        }
    }

    async fn update_run_status(
        &self,
        mut run: Object<AgentDispatchRun>,
        used: &BTreeMap<String, PoolUse>,
    ) -> Result<bool, ReconcileError> {
        if self.still_waits(&run, used).await? {
            return Ok(false);
        }
        let before = run.status.clone();
        self.with_conditions(&mut run, When::Open(used)).await?;
        match run.status == before {
            true => Ok(false),
            false => self.store.store_status(&run, self.world.now()).await,
        }
    }

    /// Whether a queued run waits for the same reason as before. Thousands can, so nothing else is read for them.
    async fn still_waits(
        &self,
        run: &Object<AgentDispatchRun>,
        used: &BTreeMap<String, PoolUse>,
    ) -> Result<bool, ReconcileError> {
        let stated = &run.status.conditions;
        let told = stated.iter().find(|one| one.kind == ConditionType::RunnerAssigned);
        let (RunPhase::Queued, Some(told)) = (run.status.phase, told) else { return Ok(false) };
        // A workspace can disappear while its run waits.
        if run.status.workspace.is_some() {
            return Ok(false);
        }
        Ok(match self.runner_facts(run, When::Open(used)).await? {
            RunnerFacts::Queued(why) => told.reason == Reason::Queued && told.message == why,
            RunnerFacts::NoCapacity(why) => {
                told.reason == Reason::NoCapacity && told.message == why
            }
            RunnerFacts::NotYet
            | RunnerFacts::Accepted(_)
            | RunnerFacts::Forbidden(_)
            | RunnerFacts::QueueTimeout(_)
            | RunnerFacts::Pod(..) => false,
        })
    }

    /// Computes the conditions of a run that is about to be stored.
    pub(super) async fn with_conditions(
        &self,
        run: &mut Object<AgentDispatchRun>,
        when: When<'_>,
    ) -> Result<(), ReconcileError> {
        let facts = RunFacts {
            context: self.context_facts(run, when).await?,
            workspace: self.workspace_facts(run).await?,
            runner: self.runner_facts(run, when).await?,
            session: self.session_facts(run, when).await?,
            approvals: Some(self.approval_facts(run).await?),
            artifacts: self.artifact_facts(run, when).await?,
        };
        let (generation, now) = (run.metadata.generation, self.world.now());
        let findings = run_conditions(&facts);
        run.status.conditions = settle(&run.status.conditions, findings, generation, now);
        run.status.observed_generation = generation;
        if let When::Ended(_) = when {
            run.status.failed_with = self.dependencies_of(run).await?;
        }
        Ok(())
    }

    /// Ends a run.
    pub(super) async fn end(
        &self,
        run: Object<AgentDispatchRun>,
        end: RunEnd,
    ) -> Result<bool, ReconcileError> {
        self.end_with(run, end, Vec::new()).await
    }

    /// Ends a run, with further writes in the same commit.
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
        self.with_conditions(&mut run, When::Ended(end.code)).await?;
        writes.extend([Write::Status(AnyObject::of(&run)?), ended(&run, now)]);
        self.store.commit(writes, now).await?;
        Ok(true)
    }

    /// Ends an attempt that could not be launched, with its run.
    pub(super) async fn not_launched(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        end: RunEnd,
    ) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        attempt.status.completed_at = Some(now);
        attempt.status.exit_reason = Some(end.to_string());
        run.status.phase = end.phase;
        run.status.completed_at = Some(now);
        run.status.terminal_reason = Some(end.to_string());
        self.with_conditions(&mut run, When::Ended(end.code)).await?;
        let writes = vec![
            Write::Status(AnyObject::of(&attempt)?),
            Write::Status(AnyObject::of(&run)?),
            ended(&run, now),
        ];
        self.store.commit(writes, now).await?;
        Ok(true)
    }

    /// What a run depends on, if it has failed and can be retried.
    async fn dependencies_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<BTreeMap<String, String>, ReconcileError> {
        if run.status.phase != RunPhase::Failed || is_child(run) {
            return Ok(BTreeMap::new());
        }
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let attempt = self.store.typed::<AgentDispatchAttempt>(&last).await?;
        Ok(dependencies(&self.store.inventory().await, run, attempt.as_ref()))
    }

    async fn context_facts(
        &self,
        run: &Object<AgentDispatchRun>,
        when: When<'_>,
    ) -> Result<ContextFacts, ReconcileError> {
        let why = run.status.terminal_reason.as_deref().unwrap_or_default();
        if when.end_code() == Some(EndCode::RedactionFailed) {
            return Ok(ContextFacts::RedactionFailed(why.to_owned()));
        }
        let (Some(digest), Some(name)) =
            (&run.status.context_bundle_digest, &run.spec.context_bundle_ref)
        else {
            return Ok(ContextFacts::Pending);
        };
        Ok(match self.store.typed::<AgentContextBundle>(name).await? {
            // That of a sub-agent is stored in the same commit as its run.
            None if is_child(run) => ContextFacts::Recorded(digest.clone()),
            None => ContextFacts::SourceMissing(format!("the bundle `{name}` is gone")),
            Some(bundle) if bundle.spec.digest != *digest => {
                ContextFacts::FetchFailed(format!("the bundle `{name}` is another one"))
            }
            Some(_) => ContextFacts::Recorded(digest.clone()),
        })
    }

    async fn workspace_facts(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<WorkspaceFacts, ReconcileError> {
        let Some(name) = run.spec.workspace_ref.as_ref().or(run.status.workspace.as_ref()) else {
            // Its worktree is created and recorded when its agent starts.
            return Ok(match (&run.status.ledger_run_id, run.status.started_at) {
                (Some(agent), Some(_)) => WorkspaceFacts::Ready(agent.clone()),
                (Some(_) | None, _) => WorkspaceFacts::Pending,
            });
        };
        let Some(workspace) = self.store.typed::<AgentWorkspace>(name).await? else {
            return Ok(WorkspaceFacts::Missing(format!("the workspace `{name}` is gone")));
        };
        if run.spec.trust_tier == TrustTier::Untrusted && !is_alone(run, &workspace) {
            return Ok(WorkspaceFacts::NotIsolated(format!("`{name}` is shared with others")));
        }
        // A run whose agent has ended does not need its files.
        if !agent_has_ended(run) && !self.world.has_files(&workspace.spec.workspace_path) {
            let why = format!("the files of the workspace `{name}` are not there");
            return Ok(WorkspaceFacts::Missing(why));
        }
        let rebase = workspace.status.rebase.as_ref().map(|rebase| rebase.state);
        Ok(match (workspace.status.state, rebase) {
            (WorkspaceState::Archived | WorkspaceState::Missing, _) => {
                WorkspaceFacts::Missing(format!("the files of the workspace `{name}` are gone"))
            }
            (WorkspaceState::Active | WorkspaceState::Idle, Some(RebaseState::RebaseConflicts)) => {
                WorkspaceFacts::RebaseBlocked(format!("a rebase of `{name}` has conflicts"))
            }
            (
                WorkspaceState::Active | WorkspaceState::Idle,
                None
                | Some(
                    RebaseState::RebaseNeeded
                    | RebaseState::ReadyForReview
                    | RebaseState::ReadyForMerge,
                ),
            ) => WorkspaceFacts::Ready(origin_of(&workspace)),
        })
    }

    async fn runner_facts(
        &self,
        run: &Object<AgentDispatchRun>,
        when: When<'_>,
    ) -> Result<RunnerFacts, ReconcileError> {
        let (name, is_over) = (&run.spec.runner_pool, run.status.phase.is_final());
        let waits = run.status.waiting_for_worker.as_ref().filter(|_| !is_over);
        if let Some(problem) = run.status.pod_problem {
            let why = waits.or(run.status.terminal_reason.as_ref()).cloned().unwrap_or_default();
            return Ok(RunnerFacts::Pod(problem, why));
        }
        if let Some(why) = waits {
            return Ok(RunnerFacts::NoCapacity(why.clone()));
        }
        if run.status.started_at.is_some() {
            return Ok(RunnerFacts::Accepted(name.clone()));
        }
        let why = run.status.terminal_reason.as_deref().unwrap_or_default();
        if when.end_code() == Some(EndCode::QueueTimeout) {
            return Ok(RunnerFacts::QueueTimeout(why.to_owned()));
        }
        let pool = match self.store.typed::<RunnerPool>(name).await? {
            None => return Ok(RunnerFacts::Forbidden(format!("the pool `{name}` is gone"))),
            Some(pool) if pool.spec.trust_tier != run.spec.trust_tier => {
                let why = format!("the pool `{name}` does not take such work");
                return Ok(RunnerFacts::Forbidden(why));
            }
            Some(pool) => pool,
        };
        let When::Open(used) = when else { return Ok(RunnerFacts::NotYet) };
        if run.status.phase != RunPhase::Queued {
            return Ok(RunnerFacts::NotYet);
        }
        let active = used.get(name).map_or(0, |used| used.active);
        Ok(match pool.spec.paused || active >= pool.spec.capacity {
            true => RunnerFacts::NoCapacity(format!("the pool `{name}` has no room")),
            false => RunnerFacts::Queued(format!("it waits for the pool `{name}`")),
        })
    }

    async fn session_facts(
        &self,
        run: &Object<AgentDispatchRun>,
        when: When<'_>,
    ) -> Result<SessionFacts, ReconcileError> {
        let status = &run.status;
        let why = status.terminal_reason.as_deref().unwrap_or_default();
        // A run that lost its permissions in the queue has failed to start, too.
        let not_launched = [EndCode::LaunchFailed, EndCode::PermissionsChanged];
        if when.end_code().is_some_and(|code| not_launched.contains(&code)) {
            // A missing program differs from one that failed to start.
            let stack = self.store.typed::<AgentStack>(&run.spec.agent_stack).await?;
            let absent = stack.is_some_and(|stack| {
                stack.status.conditions.iter().any(|one| {
                    one.kind == ConditionType::CapabilitiesResolved
                        && one.reason == Reason::AdapterUnavailable
                })
            });
            return Ok(match absent {
                true => SessionFacts::GatewayUnavailable(why.to_owned()),
                false => SessionFacts::LaunchFailed(why.to_owned()),
            });
        }
        if status.started_at.is_none() {
            return Ok(SessionFacts::NotYet);
        }
        let mut session = None;
        if let Some(name) = status.attempts.last() {
            let attempt = self.store.typed::<AgentDispatchAttempt>(name).await?;
            session = attempt.and_then(|attempt| attempt.status.agent_session_id);
        }
        // Before its end, a retry may still have the session of an earlier attempt in its status.
        let sure = status.attempts.len() == 1 || status.phase.is_final();
        let session = session.or(status.agent_session_id.clone().filter(|_| sure));
        Ok(session.map_or(SessionFacts::PendingHandoff, SessionFacts::Bound))
    }

    async fn approval_facts(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<Vec<ApprovalFacts>, ReconcileError> {
        let selection = Selection::of(Kind::AgentApproval).field("run", run.name());
        let mut asked = self.store.all_required::<AgentApproval>(selection).await?;
        // A request for a change that was rebased since does not count: it was requested again.
        asked.retain(|one| match one.spec.action.kind {
            ActionType::WriteBack(_) => {
                one.status.phase != ApprovalPhase::Expired
                    || run.status.approvals.iter().any(|name| name == one.name())
            }
            ActionType::SecretAccess
            | ActionType::NetworkExpanded
            | ActionType::ToolCall
            | ActionType::Escalation => true,
        });
        let fact = |one: Object<AgentApproval>| ApprovalFacts {
            action: one.spec.action.kind,
            phase: one.status.phase,
        };
        Ok(asked.into_iter().map(fact).collect())
    }

    /// Whether an artifact or a review exists.
    async fn is_kept(&self, name: &str) -> Result<bool, ReconcileError> {
        Ok(self.store.typed::<AgentArtifact>(name).await?.is_some()
            || self.store.typed::<AgentReviewArtifact>(name).await?.is_some())
    }

    async fn artifact_facts(
        &self,
        run: &Object<AgentDispatchRun>,
        when: When<'_>,
    ) -> Result<ArtifactFacts, ReconcileError> {
        let why = run.status.terminal_reason.as_deref().unwrap_or_default();
        if when.end_code() == Some(EndCode::PatchMissing) {
            return Ok(ArtifactFacts::PatchMissing(why.to_owned()));
        }
        // Unknown secrets: the agent's texts were not stored.
        if when.end_code() == Some(EndCode::RedactionFailed) {
            return Ok(ArtifactFacts::UploadFailed(why.to_owned()));
        }
        if when.end_code() == Some(EndCode::ReviewArtifactInvalid) {
            return Ok(ArtifactFacts::ReviewInvalid(why.to_owned()));
        }
        let selection = Selection::of(Kind::AgentReviewArtifact).field("run", run.name());
        for review in self.store.all(selection).await? {
            if let Err(error) = readable(&review) {
                return Ok(ArtifactFacts::ReviewInvalid(error.to_string()));
            }
        }
        let made = &run.status.artifacts;
        match when {
            // The results are stored in the same commit.
            When::Ended(_) => Ok(ArtifactFacts::Recorded(made.len())),
            When::Open(_) if made.is_empty() => Ok(ArtifactFacts::Pending),
            When::Open(_) => {
                for name in made {
                    if !self.is_kept(name).await? {
                        return Ok(ArtifactFacts::UploadFailed(format!("`{name}` is not kept")));
                    }
                }
                Ok(ArtifactFacts::Recorded(made.len()))
            }
        }
    }
}

/// The name of a workspace, and whether its files come from an earlier run.
fn origin_of(workspace: &Object<AgentWorkspace>) -> String {
    let (name, annotations) = (workspace.name(), &workspace.metadata.annotations);
    match (annotations.get(TAKEN_OVER), annotations.get(NOT_REUSED)) {
        (Some(earlier), _) => format!("{name}, with the files of {earlier}"),
        (None, Some(why)) => format!("{name}, a new one: {why}"),
        (None, None) => name.to_owned(),
    }
}

/// Whether a workspace belongs to one untrusted run alone.
fn is_alone(run: &Object<AgentDispatchRun>, workspace: &Object<AgentWorkspace>) -> bool {
    workspace.spec.trust_tier == TrustTier::Untrusted
        && workspace.status.runs.iter().all(|other| other == run.name())
}
