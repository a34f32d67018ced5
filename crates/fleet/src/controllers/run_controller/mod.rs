//! Follows runs whose agents are running or have just ended.

mod required_subagents;

use std::sync::Arc;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Metadata, Moment, Object, RunCost,
    RunPhase, RunnerPool,
};

use super::audit_log::{ended, unwritten};
use super::costs::note_cost;
use super::launch::{Launcher, agent_of};
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, ExitReason, RunEnd};
use super::redaction::Redaction;
use super::run_queries::RunQueries as _;
use super::run_results::ResultWriter;
use super::run_status::{RunStatusWriter, When};
use super::sessions::SessionRecorder;
use super::subagent_runs::{SubagentController, is_child};
use super::summary::Task;
use super::tool_approvals::{Questioner, ToolApprovals};
use super::write_back_controller::WriteBackController;
use super::{ReconcileError, ReconcileSummary};
use crate::ports::{
    Clock, Commits, Engine, Forges, Launched, LaunchedState, ObjectStore, SecretStore, Selection,
    StackSources, Worktrees, Write,
};

/// How long the start of an attempt may take.
const START_TIMEOUT: u64 = 5 * 60 * 1000;
/// The annotation of an attempt that continues a conversation: how many attempts the conversation had before.
pub(super) const EARLIER: &str = "bailiwick.dev/earlier-attempts";

/// Follows runs from their launch to their results.
pub(super) struct RunController<S, E, W> {
    pub(super) store: Arc<S>,
    pub(super) engine: Arc<E>,
    pub(super) world: Arc<W>,
    pub(super) launcher: Launcher<S, E, W>,
    pub(super) approvals: Arc<ToolApprovals<S, E, W>>,
    pub(super) sessions: Arc<SessionRecorder<S, W>>,
    pub(super) subagents: Arc<SubagentController<S, E, W>>,
    pub(super) write_backs: WriteBackController<S, W>,
    pub(super) statuses: Arc<RunStatusWriter<S, W>>,
    pub(super) redaction: Arc<Redaction<S, W>>,
}

impl<
    S: ObjectStore + SecretStore,
    E: Engine,
    W: Clock + Forges + Commits + StackSources + Worktrees,
> RunController<S, E, W>
{
    /// Follows every run that was started and has not ended.
    pub(super) async fn follow_runs(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        for phase in [RunPhase::Running, RunPhase::WaitingForApproval] {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            let runs = match self.store.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return summary.record("runs", Err(error)),
            };
            for run in
                runs.into_iter().filter(|run| run.status.started_at.is_some() && !is_child(run))
            {
                let name = run.name().to_owned();
                let rests = run.status.cancel_requested.is_none()
                    && summary.is_backing_off(Task::Run, &name);
                // Its workspace is recorded before it can end.
                if rests || summary.is_running(Task::RecordWorkspace, &name) {
                    continue;
                }
                let this = Arc::clone(self);
                let work = Box::pin(async move { this.follow(run).await });
                summary.run(&self.world, Task::Run, &name, work).await;
            }
        }
    }

    async fn follow(&self, run: Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let Some(name) = run.status.attempts.last() else {
            return self.statuses.end(run, RunEnd::failed("it has no attempt")).await;
        };
        let Some(attempt) = self.store.typed::<AgentDispatchAttempt>(name).await? else {
            let why = format!("its attempt `{name}` is gone");
            return self.statuses.end(run, RunEnd::failed(why)).await;
        };
        if attempt.status.completed_at.is_some() {
            // Its agent has ended: only its write-backs are left.
            let name = run.name().to_owned();
            let writes = self.write_backs.follow_writes(self.engine.as_ref(), run, &attempt);
            let changed = Box::pin(writes).await?;
            if changed {
                self.give_back_claims(&name, &attempt).await?;
            }
            return Ok(changed);
        }
        let agent = agent_of(&attempt);
        if run.status.cancel_requested.is_some() {
            self.engine.cancel(&agent).await?;
        }
        let state = self.engine.state(&agent).await?;
        // Whether the continuation of a conversation has started is known from its attempts: a kill may have
        // prevented the note of it.
        let noted = attempt.status.started_at.is_some();
        let earlier = attempt.metadata.annotations.get(EARLIER);
        let earlier: u64 = earlier.and_then(|count| count.parse().ok()).unwrap_or(0);
        let fresh = agent == attempt.name();
        let begun = |launched: &Launched| fresh || launched.attempts > earlier;
        // The results of earlier attempts of the conversation do not count for this one.
        let pending = noted && state.as_ref().is_some_and(|state| !begun(state));
        if pending && run.status.cancel_requested.is_none() {
            let since = attempt.status.started_at.unwrap_or_default();
            if self.world.now() >= since.plus_millis(START_TIMEOUT) {
                let end = EndCode::LaunchFailed.because("the conversation could not be continued");
                return self.statuses.not_launched(run, attempt, end).await;
            }
            return Ok(false);
        }
        let Some(launched) = state.filter(begun) else {
            if let Some(why) = run.status.cancel_requested.clone() {
                return self.statuses.end(run, RunEnd::cancelled(why)).await;
            }
            return self.begin(run, attempt).await;
        };
        match launched.state {
            LaunchedState::WaitingForWorker => {
                if let Some(why) = run.status.cancel_requested.clone() {
                    return self.statuses.end(run, RunEnd::cancelled(why)).await;
                }
                // An attempt that a worker has started waits for another worker without a timeout.
                if !launched.is_claimed && self.has_waited_too_long(&attempt).await? {
                    self.engine.cancel(&agent).await?;
                    let end = EndCode::QueueTimeout.because(launched.detail);
                    return self.statuses.not_launched(run, attempt, end).await;
                }
                self.observed(run, attempt, &launched, Vec::new()).await
            }
            LaunchedState::Starting => {
                if let Some(why) = run.status.cancel_requested.clone() {
                    return self.statuses.end(run, RunEnd::cancelled(why)).await;
                }
                let since = attempt.status.started_at.or(run.status.started_at);
                let since = since.unwrap_or_default();
                if self.world.now() >= since.plus_millis(START_TIMEOUT) {
                    let words = self.redaction.texts(&run).await?;
                    let detail = words.clean(&launched.detail);
                    let end = EndCode::LaunchFailed.because(format!("it does not begin: {detail}"));
                    // A late start would not be followed.
                    self.engine.cancel(&agent).await?;
                    return self.statuses.not_launched(run, attempt, end).await;
                }
                // Its supervisor may have been killed. Launching a live attempt again does nothing.
                match self.launcher.launch(&run, &attempt).await {
                    Ok(()) => {}
                    Err(error) if error.is_launch_retried() => return Err(error),
                    Err(error) => {
                        self.engine.cancel(&agent).await?;
                        let end = EndCode::LaunchFailed.because(error.to_string());
                        return self.statuses.not_launched(run, attempt, end).await;
                    }
                }
                self.observed(run, attempt, &launched, Vec::new()).await
            }
            LaunchedState::Running | LaunchedState::WaitingForApproval => {
                let agent = agent_of(&attempt);
                let asked = (agent.as_str(), launched.questions.as_slice());
                let asked =
                    self.approvals.sync(&run, Questioner::Attempt(attempt.name()), asked).await?;
                self.observed(run, attempt, &launched, asked).await
            }
            LaunchedState::Verified
            | LaunchedState::Rejected
            | LaunchedState::Failed
            | LaunchedState::Stopped
            | LaunchedState::BudgetExhausted
            | LaunchedState::EnforcementLost => {
                Box::pin(self.finish(run, attempt, &launched)).await
            }
        }
    }

    /// Whether an attempt has waited for its first worker longer than its pool permits.
    async fn has_waited_too_long(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<bool, ReconcileError> {
        let pool = self.store.typed::<RunnerPool>(&attempt.spec.runner_pool).await?;
        let timeout = pool.and_then(|pool| pool.spec.queue_timeout);
        let (Some(timeout), Some(since)) = (timeout, attempt.status.started_at) else {
            return Ok(false);
        };
        Ok(self.world.now() >= since.plus_millis(timeout.millis()))
    }

    /// Launches an attempt, and records that.
    async fn begin(
        &self,
        run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
    ) -> Result<bool, ReconcileError> {
        match self.launcher.launch(&run, &attempt).await {
            Ok(()) => {}
            Err(error) if error.is_launch_retried() => return Err(error),
            Err(error) => {
                let end = EndCode::LaunchFailed.because(error.to_string());
                return self.statuses.not_launched(run, attempt, end).await;
            }
        }
        attempt.status.started_at = Some(self.world.now());
        attempt.status.ledger_run_id = Some(agent_of(&attempt));
        self.store.commit(vec![Write::Status(AnyObject::of(&attempt)?)], self.world.now()).await?;
        Ok(true)
    }

    /// Stores the state that the engine reports, if it changed.
    async fn observed(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        launched: &Launched,
        mut writes: Vec<Write>,
    ) -> Result<bool, ReconcileError> {
        let (run_before, attempt_before) = (run.status.clone(), attempt.status.clone());
        let before = self.store.spent_before(&run, &attempt).await?;
        update_from_engine(&mut run, &mut attempt, launched, (before, self.world.now()));
        run.status.phase = match launched.questions.is_empty() {
            true => RunPhase::Running,
            false => RunPhase::WaitingForApproval,
        };
        run.status.waiting_for_worker = match launched.state {
            LaunchedState::WaitingForWorker => Some(launched.detail.clone()),
            LaunchedState::Starting
            | LaunchedState::Running
            | LaunchedState::WaitingForApproval
            | LaunchedState::Verified
            | LaunchedState::Rejected
            | LaunchedState::Failed
            | LaunchedState::Stopped
            | LaunchedState::BudgetExhausted
            | LaunchedState::EnforcementLost => None,
        };
        writes.extend(self.subagents.children(&mut run, &mut attempt).await?);
        writes.extend(self.sessions.session(&run, launched).await?);
        if run.status != run_before {
            writes.push(Write::Status(AnyObject::of(&run)?));
        }
        if attempt.status != attempt_before {
            writes.push(Write::Status(AnyObject::of(&attempt)?));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// Stores the end of an attempt together with its results.
    async fn finish(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        launched: &Launched,
    ) -> Result<bool, ReconcileError> {
        let now = self.world.now();
        // Everything below is stored without secrets.
        let words = self.redaction.texts(&run).await?;
        let launched = &words.redact_report(launched);
        let before = self.store.spent_before(&run, &attempt).await?;
        update_from_engine(&mut run, &mut attempt, launched, (before, now));
        run.status.waiting_for_worker = None;
        attempt.status.completed_at = Some(now);
        attempt.status.exit_reason = Some(ExitReason::of(launched).to_string());
        attempt.status.exit_state = launched.state.exit_state();
        let mut writes = self.subagents.children(&mut run, &mut attempt).await?;
        writes.extend(self.sessions.session(&run, launched).await?);
        let results = match &launched.work {
            Some(work) => {
                let (run, attempt) = (&mut run, &mut attempt);
                let writer = ResultWriter { run, attempt, writes: &mut writes };
                Some(writer.store_results(work, &words)?)
            }
            None => None,
        };
        let unmet = match launched.state == LaunchedState::Verified {
            true => self.unmet(&run, &attempt).await?,
            // It failed in any case.
            false => None,
        };
        let exit = ExitReason::of(launched).to_string();
        let end = match (&run.status.cancel_requested, launched.state) {
            (Some(why), _) => RunEnd::cancelled(why.as_str()),
            (None, LaunchedState::Verified) if let Some(end) = &unmet => end.clone(),
            (None, LaunchedState::Verified) if let Some(results) = &results => {
                match &results.fault {
                    None => RunEnd::new(RunPhase::Succeeded, exit),
                    Some(end) => end.clone(),
                }
            }
            // Verified work that is missing can neither be shown nor written.
            (None, LaunchedState::Verified) => {
                EndCode::PatchMissing.because("its work could not be kept")
            }
            (None, _) => RunEnd::failed(exit),
        };
        if end.phase == RunPhase::Succeeded
            && let (Some(work), Some(results)) = (&launched.work, &results)
        {
            let (run, attempt) = (&mut run, &mut attempt);
            let writer = ResultWriter { run, attempt, writes: &mut writes };
            self.write_backs.propose(writer, work, results, &words).await?;
        }
        writes.extend(unwritten(&[], &run, now));
        if !run.status.write_backs.is_empty() {
            // The run ends when all write-backs are settled.
            writes.push(Write::Status(AnyObject::of(&attempt)?));
            writes.push(Write::Status(AnyObject::of(&run)?));
            self.store.commit(writes, now).await?;
            return Ok(true);
        }
        run.status.phase = end.phase;
        run.status.terminal_reason = Some(end.to_string());
        run.status.completed_at = Some(now);
        self.statuses.with_conditions(&mut run, When::Ended(end.code)).await?;
        writes.push(ended(&run, now));
        writes.push(Write::Status(AnyObject::of(&attempt)?));
        writes.push(Write::Status(AnyObject::of(&run)?));
        self.store.commit(writes, now).await?;
        self.give_back_claims(run.name(), &attempt).await?;
        Ok(true)
    }

    /// Gives back what the agent of a run has claimed, if the run has ended. A claim that is left ends with its lease.
    async fn give_back_claims(
        &self,
        run: &str,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<(), ReconcileError> {
        let run = self.store.typed::<AgentDispatchRun>(run).await?;
        if run.is_some_and(|run| run.status.completed_at.is_some()) {
            self.engine.give_back_claims(&agent_of(attempt)).await?;
        }
        Ok(())
    }
}

/// The metadata of a new object in the namespace of another.
pub(super) fn metadata_beside(metadata: &Metadata, name: String) -> Metadata {
    Metadata { namespace: metadata.namespace.clone(), ..Metadata::named(name) }
}

fn update_from_engine(
    run: &mut Object<AgentDispatchRun>,
    attempt: &mut Object<AgentDispatchAttempt>,
    launched: &Launched,
    (before, now): (RunCost, Moment),
) {
    let agent = agent_of(attempt);
    run.status.ledger_run_id = Some(agent.clone());
    attempt.status.ledger_run_id = Some(agent);
    if launched.session.is_some() {
        run.status.agent_session_id.clone_from(&launched.session);
        attempt.status.agent_session_id.clone_from(&launched.session);
    }
    attempt.status.started_at.get_or_insert(now);
    note_cost(run, attempt, launched.cost, before);
    run.status.event_cursor = format!("{:020}", launched.cursor);
    run.status.pod_problem = launched.pod_problem;
}
