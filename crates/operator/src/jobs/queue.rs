//! The attempts that wait for a Job, and what is recorded of their Jobs.

use std::sync::Arc;

use bailiwick_fleet::ports::FleetStore;
use bailiwick_fleet::workers::{
    ATTEMPT_LABEL, JobRecord, NewWorkerToken, QueuedState, WorkerAttempt,
};
use bailiwick_kubernetes::jobs::{OpenAttempt, Problem};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{DEFAULT_NAMESPACE, JobSettings, Kind, RunnerPool};
use bailiwick_store::{MAX_CLAIMS, Store};
use thiserror::Error;

/// The prefix of tokens to join, so that secret scanners recognise them.
const JOIN_PREFIX: &str = "bwj_";
/// How long the worker of a Job may take until it joins: its node may be made first, and its image pulled.
const TOKEN_VALID_MILLIS: u64 = 6 * 3_600_000;
/// How long a worker is silent before it is deleted with its attempt.
const ABSENT_MILLIS: u64 = 600_000;
const SECRET_BYTES: usize = 32;

/// The database could not be read or written.
#[derive(Debug, Error)]
#[error("the attempts cannot be read or written: {0}")]
pub struct QueueError(String);

/// An attempt that has not ended, with the settings of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    pub open: OpenAttempt,
    /// `None` if its pool has no Jobs any more. Then no new one is made.
    pub settings: Option<JobSettings>,
}

/// The attempts of the control plane, as the operator needs them.
pub trait AttemptQueue: Send + Sync + 'static {
    /// The attempts in Jobs that have not ended.
    fn open(&self) -> impl Future<Output = Result<Vec<QueuedJob>, QueueError>> + Send;

    /// A new token, with which one worker can join for this attempt only.
    fn token(
        &self,
        attempt: &OpenAttempt,
    ) -> impl Future<Output = Result<String, QueueError>> + Send;

    /// Records what is wrong with a Job, and that it has ended if so.
    fn record(
        &self,
        attempt: &OpenAttempt,
        problem: Option<&Problem>,
        has_ended: bool,
    ) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Ends an attempt that no Job can run.
    fn give_up(
        &self,
        attempt: &OpenAttempt,
        problem: &Problem,
    ) -> impl Future<Output = Result<(), QueueError>> + Send;
}

/// The queue in the database of the server.
pub struct StoreQueue {
    store: Arc<Store>,
}

impl StoreQueue {
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Deletes the workers of attempts that have ended. Each of them could run only its own.
    async fn delete_workers(&self, open: &[WorkerAttempt]) -> Result<(), QueueError> {
        for worker in self.store.workers(ABSENT_MILLIS).await.map_err(failed)? {
            let Some(attempt) = worker.labels.get(ATTEMPT_LABEL) else { continue };
            let is_needed = open.iter().any(|open| open.agent == *attempt);
            if !worker.is_present && !is_needed {
                self.store.delete_worker(&worker.name).await.map_err(failed)?;
            }
        }
        Ok(())
    }

    async fn settings(&self, pool: &str) -> Result<Option<JobSettings>, QueueError> {
        let found = FleetStore::get(&*self.store, Kind::RunnerPool, DEFAULT_NAMESPACE, pool).await;
        let Some(found) = found.map_err(failed)? else { return Ok(None) };
        let pool = found.typed::<RunnerPool>().map_err(failed)?.spec;
        Ok(pool.job_settings())
    }
}

fn failed(error: impl std::fmt::Display) -> QueueError {
    QueueError(error.to_string())
}

fn open(attempt: WorkerAttempt) -> OpenAttempt {
    OpenAttempt {
        is_claimable: attempt.fence < MAX_CLAIMS,
        is_cancelled: attempt.is_cancelled || attempt.state == QueuedState::Stopped,
        jobs_ended: attempt.job.ended,
        problem: attempt.job.problem,
        detail: attempt.job.detail,
        attempt: attempt.agent,
        pool: attempt.pool,
    }
}

fn job_record(ended: u64, problem: Option<&Problem>) -> JobRecord {
    JobRecord {
        ended,
        problem: problem.map(|problem| problem.kind),
        detail: problem.map(|problem| problem.detail.clone()).unwrap_or_default(),
    }
}

impl AttemptQueue for StoreQueue {
    async fn open(&self) -> Result<Vec<QueuedJob>, QueueError> {
        let attempts = self.store.job_attempts().await.map_err(failed)?;
        self.delete_workers(&attempts).await?;
        let mut all = Vec::new();
        for attempt in attempts {
            let settings = self.settings(&attempt.pool).await?;
            all.push(QueuedJob { open: open(attempt), settings });
        }
        Ok(all)
    }

    async fn token(&self, attempt: &OpenAttempt) -> Result<String, QueueError> {
        let mut bytes = [0_u8; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(failed)?;
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{JOIN_PREFIX}{secret}");
        let token = NewWorkerToken {
            digest: Sha256Hex::of(&text).to_string(),
            pool: attempt.pool.clone(),
            created_by: "operator".to_owned(),
            valid_millis: TOKEN_VALID_MILLIS,
            agent: Some(attempt.attempt.clone()),
        };
        self.store.add_worker_token(&token).await.map_err(failed)?;
        Ok(text)
    }

    async fn record(
        &self,
        attempt: &OpenAttempt,
        problem: Option<&Problem>,
        has_ended: bool,
    ) -> Result<(), QueueError> {
        let record = job_record(attempt.jobs_ended + u64::from(has_ended), problem);
        let recorded = self.store.record_job(&attempt.attempt, attempt.jobs_ended, &record).await;
        recorded.map(drop).map_err(failed)
    }

    async fn give_up(&self, attempt: &OpenAttempt, problem: &Problem) -> Result<(), QueueError> {
        let record = job_record(attempt.number(), Some(problem));
        let ended = self.store.give_up_job(&attempt.attempt, attempt.jobs_ended, &record).await;
        ended.map(drop).map_err(failed)
    }
}
