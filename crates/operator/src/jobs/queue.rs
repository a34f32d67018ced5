//! The attempts that wait for a Job, and what is recorded of their Jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_fleet::workers::{
    ATTEMPT_LABEL, JobRecord, NewWorkerToken, QueuedState, WorkerAttempt,
};
use bailiwick_kubernetes::jobs::{JobPool, OpenAttempt, Problem};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, RunnerPool, TrustTier};
use bailiwick_store::{MAX_CLAIMS, Store};
use serde_json::Value;
use thiserror::Error;

/// The prefix of tokens to join, so that secret scanners recognise them.
const JOIN_PREFIX: &str = "bwj_";
/// How long a worker is silent before it is deleted with its attempt.
const ABSENT_MILLIS: u64 = 600_000;
const SECRET_BYTES: usize = 32;

/// The database could not be read or written.
#[derive(Debug, Error)]
#[error("the attempts cannot be read or written: {0}")]
pub struct QueueError(String);

/// The pool of an attempt, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolState {
    /// Its attempts run in Jobs.
    Jobs(Box<JobPool>),
    /// It has no Jobs any more, or is gone. Then no new one is made.
    WithoutJobs,
    /// It cannot be read, for this reason. Only its own attempts wait.
    Unreadable(String),
}

impl PoolState {
    pub fn jobs(&self) -> Option<&JobPool> {
        match self {
            Self::Jobs(pool) => Some(pool),
            Self::WithoutJobs | Self::Unreadable(_) => None,
        }
    }
}

/// An attempt that has not ended, with its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    pub open: OpenAttempt,
    pub pool: PoolState,
}

/// All attempts in Jobs that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenJobs {
    pub attempts: Vec<QueuedJob>,
    /// The namespaces that trusted pools name for their Jobs. No untrusted pool may use them.
    pub trusted_namespaces: BTreeSet<String>,
}

/// The attempts of the control plane, as the operator needs them.
pub trait AttemptQueue: Send + Sync + 'static {
    /// The attempts in Jobs that have not ended.
    fn open(&self) -> impl Future<Output = Result<OpenJobs, QueueError>> + Send;

    /// A new token, with which one worker can join for this attempt only, as long as it is valid.
    fn token(
        &self,
        attempt: &OpenAttempt,
        valid_millis: u64,
    ) -> impl Future<Output = Result<String, QueueError>> + Send;

    /// Records what is wrong with a Job, and that it has ended if so.
    fn record(
        &self,
        attempt: &OpenAttempt,
        problem: Option<&Problem>,
        has_ended: bool,
    ) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Whether the database knows that an attempt has ended. An attempt of another database is not known.
    fn has_ended(&self, attempt: &str) -> impl Future<Output = Result<bool, QueueError>> + Send;

    /// Ends an attempt that no Job can run, unless a worker still has it.
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

    /// All pools.
    async fn pools(&self) -> Result<Pools, QueueError> {
        let mut all = Pools::default();
        let mut selection = Selection {
            namespace: Some(DEFAULT_NAMESPACE.to_owned()),
            ..Selection::of(Kind::RunnerPool)
        };
        loop {
            let page = FleetStore::list(&*self.store, &selection).await.map_err(failed)?;
            page.objects.iter().for_each(|object| all.add(object));
            match page.next {
                Some(next) => selection.after = Some(next),
                None => return Ok(all),
            }
        }
    }
}

/// The pools by their names, and the namespaces that trusted ones name for their Jobs.
#[derive(Debug, Default)]
struct Pools {
    states: BTreeMap<String, PoolState>,
    trusted_namespaces: BTreeSet<String>,
}

impl Pools {
    fn add(&mut self, object: &AnyObject) {
        let state = match object.typed::<RunnerPool>() {
            Ok(pool) => match pool.spec.job_settings() {
                Some(settings) => {
                    let pool = JobPool { settings, trust_tier: pool.spec.trust_tier };
                    if pool.trust_tier == TrustTier::Trusted {
                        self.trusted_namespaces.extend(pool.settings.namespace.clone());
                    }
                    PoolState::Jobs(Box::new(pool))
                }
                None => PoolState::WithoutJobs,
            },
            Err(error) => {
                self.reserve(&object.spec);
                PoolState::Unreadable(error.to_string())
            }
        };
        self.states.insert(object.metadata.name.clone(), state);
    }

    /// Keeps the namespace of a pool that cannot be read, unless it says that it is untrusted.
    fn reserve(&mut self, spec: &Value) {
        let is_untrusted = spec.get("trustTier").and_then(Value::as_str) == Some("untrusted");
        let namespace = spec.pointer("/job/namespace").and_then(Value::as_str);
        if !is_untrusted {
            self.trusted_namespaces.extend(namespace.map(str::to_owned));
        }
    }

    fn state(&self, name: &str) -> PoolState {
        self.states.get(name).cloned().unwrap_or(PoolState::WithoutJobs)
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
        is_expired: attempt.is_expired,
        queued_millis: attempt.queued_millis,
        grants: attempt.pod_grants,
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
    async fn open(&self) -> Result<OpenJobs, QueueError> {
        let attempts = self.store.job_attempts().await.map_err(failed)?;
        self.delete_workers(&attempts).await?;
        if attempts.is_empty() {
            return Ok(OpenJobs::default());
        }
        let pools = self.pools().await?;
        let attempts = attempts.into_iter().map(|attempt| {
            let pool = pools.state(&attempt.pool);
            QueuedJob { open: open(attempt), pool }
        });
        let attempts = attempts.collect();
        Ok(OpenJobs { attempts, trusted_namespaces: pools.trusted_namespaces })
    }

    async fn token(&self, attempt: &OpenAttempt, valid_millis: u64) -> Result<String, QueueError> {
        let mut bytes = [0_u8; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(failed)?;
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{JOIN_PREFIX}{secret}");
        let token = NewWorkerToken {
            digest: Sha256Hex::of(&text).to_string(),
            pool: attempt.pool.clone(),
            created_by: "operator".to_owned(),
            valid_millis,
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

    async fn has_ended(&self, attempt: &str) -> Result<bool, QueueError> {
        self.store.is_known_to_have_ended(attempt).await.map_err(failed)
    }

    async fn give_up(&self, attempt: &OpenAttempt, problem: &Problem) -> Result<(), QueueError> {
        let record = job_record(attempt.number(), Some(problem));
        let ended = self.store.give_up_job(&attempt.attempt, attempt.jobs_ended, &record).await;
        ended.map(drop).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{API_VERSION, Metadata};
    use serde_json::json;

    use super::*;

    fn pool(name: &str, spec: Value) -> AnyObject {
        let (api_version, kind) = (API_VERSION.to_owned(), Kind::RunnerPool);
        let metadata = Metadata::named(name);
        AnyObject { api_version, kind, metadata, spec, status: Value::Null }
    }

    #[test]
    fn unreadable_pool_does_not_hide_the_others_and_keeps_its_namespace() {
        let spec = |capacity: Value, tier: &str, namespace: &str| {
            json!({ "capacity": capacity, "trustTier": tier, "serviceAccountRef": "runner",
                "runsOn": "jobs", "job": { "namespace": namespace } })
        };
        let mut pools = Pools::default();
        for (name, spec) in [
            ("readable", spec(json!(1), "trusted", "a")),
            ("untrusted", spec(json!(1), "untrusted", "b")),
            ("broken", spec(json!("many"), "trusted", "c")),
            ("newer", spec(json!(1), "something new", "d")),
            ("broken-untrusted", spec(json!("many"), "untrusted", "e")),
        ] {
            pools.add(&pool(name, spec));
        }
        assert!(
            pools.state("readable").jobs().is_some() && pools.state("untrusted").jobs().is_some()
        );
        for name in ["broken", "newer", "broken-untrusted"] {
            let state = pools.state(name);
            assert!(matches!(state, PoolState::Unreadable(_)), "{name}: {state:?}");
        }
        assert_eq!(pools.state("gone"), PoolState::WithoutJobs);
        let trusted: Vec<&str> = pools.trusted_namespaces.iter().map(String::as_str).collect();
        assert_eq!(trusted, ["a", "c", "d"]);
    }
}
