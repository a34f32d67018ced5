//! Compares the attempts that wait with the Jobs that there are, and does what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

use bailiwick_kubernetes::jobs::{
    AttemptJob, JobStanding, OpenAttempt, Problem, Seen, Step, deadline_seconds, has_ended, is_due,
    last_end, overdue, plan, require_identity, standing, without_job,
};
use bailiwick_kubernetes::manifests::Label;
use bailiwick_model::backoff::Backoff;
use bailiwick_resources::{JobSettings, PodProblem};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use thiserror::Error;

use super::cluster::{ClusterError, Created, FoundJob, JobCluster, Listed, TokenSecret};
use super::orphans::{Counting, Orphans};
use super::queue::{AttemptQueue, OpenJobs, PoolState, QueueError, QueuedJob};
use super::retries::{Retries, Subject};

/// How often everything is compared.
const ROUND_INTERVAL: Duration = Duration::from_secs(2);
const BACKOFF: Backoff = Backoff::new(ROUND_INTERVAL, Duration::from_secs(60));
/// How long the worker of a Job may take until it joins, at least: its node may be made first, and its image pulled.
const MIN_TOKEN_MILLIS: u64 = 6 * 3_600_000;

/// Why a part of a round did not end.
#[derive(Debug, Error)]
pub enum RoundError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Another database may have the attempt.
    #[error(
        "the database does not say that its attempt `{attempt}` has ended, so it is not deleted; if this is the \
         database of the server, delete it: kubectl -n {namespace} delete job {job}"
    )]
    UnknownAttempt { attempt: String, namespace: String, job: String },
}

/// A part of a round that failed. The other parts go on.
#[derive(Debug, Error)]
#[error("{subject}")]
pub struct Failure {
    pub subject: Subject,
    #[source]
    pub error: RoundError,
}

/// What was done about an attempt.
enum Attended {
    Done,
    /// Its Job cannot be made. Later, it may.
    Refused,
}

/// The token of a Job. It is kept until its secret is stored, so that one Job never has two.
struct Handed {
    namespace: Label,
    token: String,
    secret: TokenSecret,
}

/// A pod may wait for its node, its image or a quota until the deadline of its Job.
fn valid_millis(settings: &JobSettings) -> u64 {
    let deadline = u64::try_from(deadline_seconds(settings)).unwrap_or_default();
    deadline.saturating_mul(1_000).max(MIN_TOKEN_MILLIS)
}

/// Runs attempts in Jobs.
pub struct JobController<Q> {
    queue: Q,
    cluster: JobCluster,
    /// The namespaces in which there may be Jobs.
    namespaces: BTreeSet<Label>,
    /// The Jobs that have got a token, by their uid.
    handed: BTreeMap<String, Handed>,
    orphans: Orphans,
    retries: Retries,
}

impl<Q: AttemptQueue> JobController<Q> {
    pub fn new(queue: Q, cluster: JobCluster) -> Self {
        Self {
            queue,
            namespaces: cluster.namespaces(),
            cluster,
            handed: BTreeMap::new(),
            orphans: Orphans::default(),
            retries: Retries::default(),
        }
    }

    /// Compares again and again until it is shut down. `failed` is called with what goes wrong; it is tried again.
    pub async fn run(
        mut self,
        failed: impl Fn(&(dyn Error + 'static)),
        shutdown: impl Future<Output = ()>,
    ) {
        tokio::pin!(shutdown);
        let mut failed_rounds = 0_u32;
        loop {
            let round = tokio::select! {
                () = &mut shutdown => return,
                round = self.round(Timestamp::now()) => round,
            };
            let pause = match round {
                Ok(failures) => {
                    for failure in &failures {
                        failed(failure);
                    }
                    failed_rounds = 0;
                    ROUND_INTERVAL
                }
                Err(error) => {
                    failed(&error);
                    failed_rounds = failed_rounds.saturating_add(1);
                    BACKOFF.delay(failed_rounds)
                }
            };
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One comparison; the error is that of the database. Jobs are read before attempts: so the attempt of a Job that
    /// has done its work is not open any more, and no Job is taken for an orphan whose attempt is only new.
    pub async fn round(&mut self, now: Timestamp) -> Result<Vec<Failure>, QueueError> {
        let mut failures = Vec::new();
        self.retries.forget_stale(now);
        let listed = self.list(now, &mut failures).await;
        let there: BTreeSet<_> =
            listed.all().filter_map(|(_, found)| found.job.metadata.uid.as_ref()).collect();
        self.handed.retain(|uid, handed| there.contains(uid) || !listed.has(&handed.namespace));
        let open = self.queue.open().await?;
        for queued in &open.attempts {
            let subject = Subject::Attempt(queued.open.attempt.clone());
            if !self.retries.is_due(&subject, now) {
                continue;
            }
            match self.attend(queued, &open, &listed, now).await {
                Ok(Attended::Done) => self.retries.succeeded(&subject),
                Ok(Attended::Refused) => self.retries.failed(subject, now),
                Err(error) => self.note(subject, error, now, &mut failures),
            }
        }
        self.delete_orphans(&open, &listed, now, &mut failures).await;
        Ok(failures)
    }

    fn note(
        &mut self,
        subject: Subject,
        error: RoundError,
        now: Timestamp,
        failures: &mut Vec<Failure>,
    ) {
        self.retries.failed(subject.clone(), now);
        failures.push(Failure { subject, error });
    }

    /// What is in the namespaces. One that cannot be listed is left out: nothing is made or deleted in it.
    async fn list(&mut self, now: Timestamp, failures: &mut Vec<Failure>) -> Listed {
        let mut listed = Listed::default();
        for namespace in self.namespaces.clone() {
            let subject = Subject::Namespace(namespace.clone());
            if !self.retries.is_due(&subject, now) {
                continue;
            }
            match self.cluster.list(&namespace, &mut listed).await {
                Ok(()) => self.retries.succeeded(&subject),
                Err(error) => self.note(subject, error.into(), now, failures),
            }
        }
        listed
    }

    async fn attend(
        &mut self,
        queued: &QueuedJob,
        all: &OpenJobs,
        listed: &Listed,
        now: Timestamp,
    ) -> Result<Attended, RoundError> {
        let open = &queued.open;
        let pool = match &queued.pool {
            PoolState::Jobs(pool) => pool,
            PoolState::WithoutJobs => return Ok(Attended::Done),
            PoolState::Unreadable(why) => {
                let detail = format!("its pool `{}` cannot be read: {why}", open.pool);
                let problem = Problem { kind: PodProblem::PodNotAdmitted, detail };
                return self.refuse(open, &JobSettings::default(), problem).await;
            }
        };
        let namespace = match self.cluster.namespace(pool, &all.trusted_namespaces) {
            Ok(namespace) => namespace,
            Err(error) => return self.refuse(open, &pool.settings, error.into()).await,
        };
        if let Err(error) = require_identity(&open.grants, &namespace) {
            return self.refuse(open, &pool.settings, error.into()).await;
        }
        if !listed.has(&namespace) {
            return Ok(Attended::Done);
        }
        let wanted = AttemptJob {
            attempt: &open.attempt,
            pool: &open.pool,
            settings: &pool.settings,
            grants: &open.grants,
            namespace: &namespace,
            number: open.number(),
        };
        let job = listed.job(&namespace, &self.cluster.job_name(&open.attempt, wanted.number));
        let mut standing = match job {
            Some(job) => {
                let standing = self.standing(job, listed).await?;
                Some(overdue(standing, last_end(Some(job), listed.pod(job)), now))
            }
            None => None,
        };
        let is_waiting = matches!(standing, Some(JobStanding::Waiting(_)));
        if let Some(job) = job.filter(|_| is_waiting)
            && let Some(problem) = self.hand_token(open, &wanted, job, now).await?
        {
            standing = Some(JobStanding::Waiting(Some(problem)));
        }
        match plan(open, standing) {
            Step::Create if self.is_elsewhere(&wanted, listed) => Ok(Attended::Done),
            Step::Create if !self.is_due(&wanted, listed, now) => Ok(Attended::Done),
            Step::Create => self.create(open, &wanted, now).await,
            step @ (Step::Nothing | Step::Record(_) | Step::Again(_) | Step::GiveUp(_)) => {
                self.record(open, step).await?;
                Ok(Attended::Done)
            }
        }
    }

    /// Whether the same Job is in another namespace, since before the pool got this one. It is deleted as an orphan first.
    /// A Job that never got its token from this operator does not count: anyone who may create Jobs there can make one.
    fn is_elsewhere(&self, wanted: &AttemptJob<'_>, listed: &Listed) -> bool {
        listed.all().any(|(namespace, found)| {
            let is_same = found.attempt == wanted.attempt && found.number == wanted.number;
            let uid = found.job.metadata.uid.as_ref();
            let is_ours = uid.is_some_and(|uid| self.handed.contains_key(uid));
            is_same && is_ours && namespace != wanted.namespace && !has_ended(&found.job)
        })
    }

    /// Whether the Job before has ended long enough ago.
    fn is_due(&self, wanted: &AttemptJob<'_>, listed: &Listed, now: Timestamp) -> bool {
        let before = self.cluster.job_name(wanted.attempt, wanted.number.saturating_sub(1));
        let before = listed.job(wanted.namespace, &before);
        let pod = before.and_then(|job| listed.pod(job));
        is_due(wanted.number, last_end(before, pod), now)
    }

    async fn create(
        &mut self,
        open: &OpenAttempt,
        wanted: &AttemptJob<'_>,
        now: Timestamp,
    ) -> Result<Attended, RoundError> {
        // Each time: someone may have deleted it since the last Job.
        if let Some(problem) = self.cluster.apply_network_policy(wanted.namespace).await? {
            return self.refuse(open, wanted.settings, problem).await;
        }
        match self.cluster.create(wanted).await? {
            Created::Job(job) => match self.hand_token(open, wanted, &job, now).await? {
                None => Ok(Attended::Done),
                Some(problem) => self.refuse(open, wanted.settings, problem).await,
            },
            Created::Refused(problem) => self.refuse(open, wanted.settings, problem).await,
        }
    }

    async fn refuse(
        &self,
        open: &OpenAttempt,
        settings: &JobSettings,
        problem: Problem,
    ) -> Result<Attended, RoundError> {
        self.record(open, without_job(open, settings, problem)).await?;
        Ok(Attended::Refused)
    }

    async fn record(&self, open: &OpenAttempt, step: Step) -> Result<(), QueueError> {
        match step {
            Step::Nothing | Step::Create => Ok(()),
            Step::Record(problem) => self.queue.record(open, problem.as_ref(), false).await,
            Step::Again(problem) => self.queue.record(open, Some(&problem), true).await,
            Step::GiveUp(problem) => self.queue.give_up(open, &problem).await,
        }
    }

    /// The pod waits until its secret is there, so it is made again until that succeeds once; or why it is refused. A
    /// token that was made before a kill expires unused.
    async fn hand_token(
        &mut self,
        open: &OpenAttempt,
        wanted: &AttemptJob<'_>,
        job: &Job,
        now: Timestamp,
    ) -> Result<Option<Problem>, RoundError> {
        let Some(uid) = job.metadata.uid.clone() else { return Ok(None) };
        let subject = Subject::Secret(job.name_any());
        let token = match self.handed.get(&uid) {
            Some(Handed { secret: TokenSecret::Stored, .. }) => return Ok(None),
            Some(Handed { secret: TokenSecret::Refused(problem), .. })
                if !self.retries.is_due(&subject, now) =>
            {
                return Ok(Some(problem.clone()));
            }
            Some(_) if !self.retries.is_due(&subject, now) => return Ok(None),
            Some(handed) => handed.token.clone(),
            None => {
                let token = self.queue.token(open, valid_millis(wanted.settings)).await?;
                let (namespace, secret) = (wanted.namespace.clone(), TokenSecret::Unknown);
                let handed = Handed { namespace, token: token.clone(), secret };
                self.handed.insert(uid.clone(), handed);
                token
            }
        };
        let secret = self.cluster.add_token(wanted.namespace, job, &token).await?;
        let problem = match &secret {
            TokenSecret::Stored | TokenSecret::Unknown => None,
            TokenSecret::Refused(problem) => Some(problem.clone()),
        };
        match secret {
            TokenSecret::Stored => self.retries.succeeded(&subject),
            TokenSecret::Unknown | TokenSecret::Refused(_) => self.retries.failed(subject, now),
        }
        if let Some(handed) = self.handed.get_mut(&uid) {
            handed.secret = secret;
        }
        Ok(problem)
    }

    async fn standing(&self, job: &Job, listed: &Listed) -> Result<JobStanding, RoundError> {
        let pod = listed.pod(job);
        let (mut quotas, mut refused) = (Vec::new(), None);
        if pod.is_none() {
            refused = self.cluster.refused_pod(job).await?;
            if refused.is_some() {
                let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
                quotas = self.cluster.quotas(namespace).await?;
            }
        }
        Ok(standing(&Seen { job, pod, quotas: &quotas, refused: refused.as_deref() }))
    }

    async fn delete_orphans(
        &mut self,
        open: &OpenJobs,
        listed: &Listed,
        now: Timestamp,
        failures: &mut Vec<Failure>,
    ) {
        let counting = open.attempts.iter().map(|queued| {
            let pool = queued.pool.jobs();
            let namespace =
                pool.and_then(|pool| self.cluster.namespace(pool, &open.trusted_namespaces).ok());
            let QueuedJob { open, .. } = queued;
            let is_expired = open.is_expired;
            (open.attempt.as_str(), Counting { number: open.number(), namespace, is_expired })
        });
        let counting: BTreeMap<&str, Counting> = counting.collect();
        for found in self.orphans.count(&counting, listed) {
            let subject = Subject::Job(found.job.name_any());
            if !self.retries.is_due(&subject, now) {
                continue;
            }
            let is_open = counting.contains_key(found.attempt.as_str());
            match self.delete_orphan(found, is_open).await {
                Ok(()) => self.retries.succeeded(&subject),
                Err(error) => self.note(subject, error, now, failures),
            }
        }
    }

    /// Deletes a Job that runs for nothing. If the database does not know its attempt, this may be the wrong database.
    async fn delete_orphan(&self, found: &FoundJob, is_open: bool) -> Result<(), RoundError> {
        if !is_open && !self.queue.has_ended(&found.attempt).await? {
            return Err(RoundError::UnknownAttempt {
                attempt: found.attempt.clone(),
                namespace: found.job.namespace().unwrap_or_default(),
                job: found.job.name_any(),
            });
        }
        Ok(self.cluster.delete(&found.job).await?)
    }
}
