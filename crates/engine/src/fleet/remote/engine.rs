//! The engine of the control plane: an attempt runs on this machine or is queued for workers, as its pool says.

use std::sync::Arc;

use bailiwick_fleet::ports::{
    AttemptLaunch, Engine, EngineError, EngineEvent, LaunchPlace, Launched, LaunchedChild,
    LaunchedState, Rebased,
};
use bailiwick_fleet::workers::{ProgressState, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::event::ExitReason;
use bailiwick_store::{MAX_CLAIMS, Store};
use tracing::Instrument as _;

use super::checking::WorkChecks;
use super::{launching, waiting};
use crate::context::Context;
use crate::fleet::engine::{LocalEngine, Verification};

/// Attempts of this machine, and of workers.
pub struct FleetEngine {
    context: Context,
    store: Arc<Store>,
    local: LocalEngine,
    checks: WorkChecks,
    lease_millis: u64,
}

fn failed(error: StoreError) -> EngineError {
    EngineError(error.to_string())
}

impl FleetEngine {
    /// `lease_millis` is how long a worker may be silent before it counts as absent.
    pub fn new(context: Context, store: Arc<Store>, lease_millis: u64) -> Self {
        let local = LocalEngine::new(context.clone(), Arc::clone(&store), Verification::Here);
        Self { context, store, local, checks: WorkChecks::default(), lease_millis }
    }

    async fn queued(&self, agent: &str) -> Result<Option<WorkerAttempt>, EngineError> {
        self.store.queued_attempt(agent).await.map_err(failed)
    }

    async fn queue(&self, launch: AttemptLaunch) -> Result<(), EngineError> {
        launching::require_no_conversation(&launch)?;
        if self.queued(&launch.agent).await?.is_some() {
            return Ok(());
        }
        let (context, span) = (self.context.clone(), tracing::Span::current());
        let made = tokio::task::spawn_blocking(move || {
            span.in_scope(|| launching::queued(&context, launch))
        });
        let made = made.await;
        let queued = made
            .map_err(|error| EngineError(format!("a background task failed: {error}")))?
            .map_err(|failure| EngineError(failure.in_one_line()))?;
        self.store.queue_attempt(&queued).await.map_err(failed)
    }

    /// The state of an attempt whose worker may have disappeared.
    async fn claimed(&self, attempt: WorkerAttempt) -> Result<Option<Launched>, EngineError> {
        let next = match (attempt.is_expired, attempt.is_cancelled) {
            (true, true) => Some(QueuedState::Stopped),
            (true, false) if attempt.fence >= MAX_CLAIMS => Some(QueuedState::Lost),
            (_, _) => None,
        };
        if let Some(next) = next
            && self.store.give_up_attempt(&attempt, next).await.map_err(failed)?
        {
            return Ok(Some(launched(WorkerAttempt { state: next, ..attempt })));
        }
        let mut launched = launched(attempt.clone());
        if attempt.is_expired {
            launched.state = LaunchedState::WaitingForWorker;
            launched.pod_problem = attempt.job.problem;
            launched.detail = match attempt.job.problem {
                Some(_) => attempt.job.detail,
                None => format!(
                    "its worker {} is not heard of any more; another one can take it",
                    attempt.worker
                ),
            };
        }
        Ok(Some(launched))
    }

    /// The state of an attempt that its worker has ended.
    async fn finished(&self, attempt: WorkerAttempt) -> Result<Option<Launched>, EngineError> {
        let pause = self.checks.pause(&attempt.agent);
        if attempt.is_cancelled && pause.is_some() {
            let next = QueuedState::Stopped;
            self.store.cancel_checks(&attempt.agent).await.map_err(failed)?;
            self.store.settle_attempt(&attempt.agent, next, "").await.map_err(failed)?;
            return Ok(Some(launched(WorkerAttempt { state: next, ..attempt })));
        }
        let is_completed =
            attempt.finish.as_ref().is_some_and(|finish| finish.ending == ExitReason::Completed);
        if is_completed {
            self.checks
                .start(&self.context, attempt.clone(), self.lease_millis)
                .map_err(|failure| EngineError(failure.in_one_line()))?;
        }
        let mut launched = launched(attempt);
        if let Some(why) = pause {
            launched.detail = why;
        }
        Ok(Some(launched))
    }

    /// The state of an attempt whose work was checked here, with what its worker has used.
    async fn checked(&self, attempt: WorkerAttempt) -> Result<Option<Launched>, EngineError> {
        let found = self.local.state(&attempt.agent).await?;
        Ok(found.map(|found| Launched {
            session: attempt.report.session.clone(),
            cost: attempt.cost(),
            attempts: attempt.report.attempts.max(1),
            is_claimed: true,
            cursor: attempt.last_event,
            ..found
        }))
    }
}

/// The state of an attempt, from its row in the queue.
fn launched(attempt: WorkerAttempt) -> Launched {
    let finish = attempt.finish.as_ref();
    let (state, detail) = match attempt.state {
        QueuedState::Queued => (LaunchedState::WaitingForWorker, String::new()),
        QueuedState::Claimed => match attempt.report.state {
            ProgressState::Starting => (
                LaunchedState::WaitingForWorker,
                format!("the worker {} starts it", attempt.worker),
            ),
            ProgressState::Running => (LaunchedState::Running, attempt.report.detail.clone()),
            ProgressState::WaitingForApproval => {
                (LaunchedState::WaitingForApproval, attempt.report.detail.clone())
            }
        },
        QueuedState::Finished | QueuedState::Checked => {
            let detail = finish.map(|finish| finish.detail.clone()).unwrap_or_default();
            let state =
                finish.map_or(LaunchedState::Failed, |finish| state_until_checked(finish.ending));
            (state, detail)
        }
        QueuedState::Refused => {
            let why = format!("the work that its worker sent cannot be used: {}", attempt.detail);
            (LaunchedState::EnforcementLost, why)
        }
        QueuedState::Lost if attempt.job.problem.is_some() => {
            (LaunchedState::Failed, attempt.job.detail.clone())
        }
        QueuedState::Lost => {
            let why = format!(
                "its worker {} is not heard of any more, and neither is the one before; retry the run",
                attempt.worker
            );
            (LaunchedState::Failed, why)
        }
        QueuedState::Stopped => (LaunchedState::Stopped, "cancelled".to_owned()),
    };
    let questions = match state {
        LaunchedState::WaitingForApproval => attempt.report.questions.clone(),
        LaunchedState::WaitingForWorker
        | LaunchedState::Starting
        | LaunchedState::Running
        | LaunchedState::Verified
        | LaunchedState::Rejected
        | LaunchedState::Failed
        | LaunchedState::Stopped
        | LaunchedState::BudgetExhausted
        | LaunchedState::EnforcementLost => Vec::new(),
    };
    Launched {
        state,
        session: attempt.report.session.clone(),
        cost: attempt.cost(),
        attempts: attempt.report.attempts,
        // What its worker could not begin waits as before.
        is_claimed: attempt.fence > 0 && attempt.state != QueuedState::Queued,
        cursor: attempt.last_event,
        detail,
        questions,
        work: None,
        pod_problem: match state {
            LaunchedState::WaitingForWorker | LaunchedState::Failed => attempt.job.problem,
            LaunchedState::Starting
            | LaunchedState::Running
            | LaunchedState::WaitingForApproval
            | LaunchedState::Verified
            | LaunchedState::Rejected
            | LaunchedState::Stopped
            | LaunchedState::BudgetExhausted
            | LaunchedState::EnforcementLost => None,
        },
    }
}

/// Completed work is running until it was checked here.
fn state_until_checked(ending: ExitReason) -> LaunchedState {
    match ending {
        ExitReason::Completed => LaunchedState::Running,
        ExitReason::Stopped => LaunchedState::Stopped,
        ExitReason::BudgetExhausted => LaunchedState::BudgetExhausted,
        ExitReason::EnforcementLost | ExitReason::Denied => LaunchedState::EnforcementLost,
        ExitReason::Failed | ExitReason::TimedOut | ExitReason::CutOff => LaunchedState::Failed,
    }
}

impl Engine for FleetEngine {
    async fn launch(&self, launch: AttemptLaunch) -> Result<(), EngineError> {
        // What is logged meanwhile names it.
        let span = tracing::info_span!("attempt", attempt = %launch.agent);
        async {
            match &launch.place {
                LaunchPlace::Server => self.local.launch(launch).await,
                LaunchPlace::Workers(_) | LaunchPlace::Job(_) => self.queue(launch).await,
            }
        }
        .instrument(span)
        .await
    }

    async fn state(&self, agent: &str) -> Result<Option<Launched>, EngineError> {
        let Some(attempt) = self.queued(agent).await? else { return self.local.state(agent).await };
        match attempt.state {
            QueuedState::Queued => {
                let workers = self.store.workers(self.lease_millis).await.map_err(failed)?;
                let detail = waiting::reason(&attempt, &workers);
                Ok(Some(Launched { detail, ..launched(attempt) }))
            }
            QueuedState::Claimed => self.claimed(attempt).await,
            QueuedState::Finished => self.finished(attempt).await,
            QueuedState::Checked => self.checked(attempt).await,
            QueuedState::Refused | QueuedState::Lost | QueuedState::Stopped => {
                Ok(Some(launched(attempt)))
            }
        }
    }

    async fn is_running(&self, agent: &str) -> Result<bool, EngineError> {
        Ok(match self.queued(agent).await?.map(|attempt| attempt.state) {
            Some(QueuedState::Queued | QueuedState::Claimed | QueuedState::Finished) => true,
            Some(
                QueuedState::Checked
                | QueuedState::Refused
                | QueuedState::Lost
                | QueuedState::Stopped,
            )
            | None => self.local.is_running(agent).await?,
        })
    }

    async fn children(&self, agent: &str) -> Result<Vec<LaunchedChild>, EngineError> {
        match self.queued(agent).await? {
            // Attempts with sub-agents are not queued.
            Some(_) => Ok(Vec::new()),
            None => self.local.children(agent).await,
        }
    }

    async fn answer(&self, agent: &str, question: &str, yes: bool) -> Result<bool, EngineError> {
        match self.queued(agent).await? {
            Some(_) => self.store.answer_attempt(agent, question, yes).await.map_err(failed),
            None => self.local.answer(agent, question, yes).await,
        }
    }

    async fn events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EngineEvent>, EngineError> {
        match self.queued(agent).await? {
            Some(_) => self.store.worker_events(agent, after, limit).await.map_err(failed),
            None => self.local.events(agent, after, limit).await,
        }
    }

    async fn new_event(&self) {
        self.store.reported_signal().wait().await;
    }

    async fn rebase(&self, agent: &str, onto: &str) -> Result<Rebased, EngineError> {
        // Work that was checked here is in a worktree here.
        self.local.rebase(agent, onto).await
    }

    async fn cancel(&self, agent: &str) -> Result<(), EngineError> {
        match self.queued(agent).await? {
            Some(_) => self.store.cancel_attempt(agent).await.map(drop).map_err(failed),
            None => self.local.cancel(agent).await,
        }
    }

    async fn give_back_claims(&self, agent: &str) -> Result<(), EngineError> {
        // They were taken here, also for work on a worker.
        self.local.give_back_claims(agent).await
    }

    async fn forget(&self, agent: &str) -> Result<(), EngineError> {
        if self.queued(agent).await?.is_some() {
            self.store.forget_attempt(agent).await.map_err(failed)?;
        }
        self.local.forget(agent).await
    }
}
