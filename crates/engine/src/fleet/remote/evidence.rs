//! Commands and tests of checks that workers run. A worker gives the outcome of a job, never a verdict: which checks
//! there are, what changed, and whether a check holds is decided here.
//!
//! An outcome counts if it is of the very tree that was received, has the shape of its job, and does not come from a
//! worker that has run the attempt. What no worker can run is run here, and so is what takes workers too long.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore;
use bailiwick_fleet::workers::{
    CheckEvidence, MAX_EVIDENCE_BYTES, QueuedCheck, QueuedState, RemoteCheck, WorkClaim,
    WorkerAttempt, WorkerRecord, WorkerState, satisfies,
};
use bailiwick_lifecycle::ports::Preparation;
use bailiwick_lifecycle::verification::{Evidence, JobEvidence, JobTree};
use bailiwick_model::{Sha256Hex, TreeId};
use bailiwick_resources::{ChecksOn, DEFAULT_NAMESPACE, Kind, RunnerPool, TrustTier};
use bailiwick_runner::environment::BaseTrust;
use bailiwick_store::{CancelOutcome, MAX_CLAIMS, Store};
use bailiwick_verify::{Job, JobOutcome};

use super::outcomes::{is_success, require_answer};
use super::waiting::with_capabilities;
use super::{CHECKS_LABEL, SANDBOX_LABEL};
use crate::context::Context;
use crate::failure::Failure;
use crate::verifying::AgentWork;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long a job waits for a worker.
const MAX_QUEUED: Duration = Duration::from_secs(600);
/// How long a worker may take for what is around a job, such as its commits.
const PREPARATION: Duration = Duration::from_secs(600);

/// How long workers may take for a job, since it was queued.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobLimits {
    /// Until a worker has claimed it.
    queued: Duration,
    /// Until its outcome is here.
    ended: Duration,
}

impl JobLimits {
    /// The limits for jobs whose commands may take this long.
    pub(super) fn of(command: Duration) -> Self {
        let run = command.saturating_mul(2).saturating_add(PREPARATION);
        Self { queued: MAX_QUEUED, ended: MAX_QUEUED.saturating_add(run) }
    }
}

/// What happens with jobs that are run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobsHere {
    /// They wait: only the jobs for workers are queued.
    Wait,
    Run,
}

/// Outcomes of the jobs of one attempt.
pub(super) struct WorkerEvidence<'a> {
    context: &'a Context,
    attempt: &'a WorkerAttempt,
    subject: &'a AgentWork,
    claim: &'a WorkClaim,
    lease_millis: u64,
    limits: JobLimits,
    trees: JobTree,
    here: JobsHere,
    /// How many jobs workers have yet to run.
    awaited: usize,
    failure: Option<Failure>,
}

/// Whether workers may run commands and tests on this work. What they need must be in its commits, and the base must be
/// trusted.
pub(super) fn is_permitted(attempt: &WorkerAttempt, subject: &AgentWork) -> bool {
    attempt.checks_on == ChecksOn::Workers
        && subject.base_trust() == BaseTrust::Trusted
        && Preparation::of(&subject.bound.task).copy.is_empty()
        && subject.installed().is_empty()
}

/// Whether a pool lets workers run commands and tests now. An attempt that was queued before may say something else.
pub(super) fn pool_permits(context: &Context, pool: &str) -> Result<bool, Failure> {
    context.with_store(async |store| {
        let found = FleetStore::get(store, Kind::RunnerPool, DEFAULT_NAMESPACE, pool).await;
        let found = found.map_err(|error| Failure::general(error.to_string()))?;
        let pool = found.and_then(|object| object.typed::<RunnerPool>().ok());
        Ok(pool.is_some_and(|pool| {
            pool.spec.checks_on == ChecksOn::Workers && pool.spec.trust_tier == TrustTier::Trusted
        }))
    })
}

/// The jobs of an attempt that workers have yet to run; those that none can run are given up.
pub(super) fn open_jobs(
    context: &Context,
    attempt: &WorkerAttempt,
    lease_millis: u64,
    limits: JobLimits,
) -> Result<usize, Failure> {
    context.with_store(async |store| {
        let mut open = 0;
        for job in store.open_checks(&attempt.agent).await? {
            open += usize::from(is_awaited(store, &job, lease_millis, limits).await?);
        }
        Ok(open)
    })
}

/// Whether a worker runs a queued job, or can begin it, in time. If not, it is given up, so that it is run here.
async fn is_awaited(
    store: &Store,
    job: &WorkerAttempt,
    lease_millis: u64,
    limits: JobLimits,
) -> Result<bool, Failure> {
    let (is_claimed, limit) = match job.state {
        QueuedState::Queued => (false, limits.queued),
        QueuedState::Claimed => (true, limits.ended),
        QueuedState::Finished
        | QueuedState::Checked
        | QueuedState::Refused
        | QueuedState::Lost
        | QueuedState::Stopped => return Ok(false),
    };
    if Duration::from_millis(job.queued_millis) >= limit {
        // A worker can renew its lease for ever.
        store.cancel_attempt(&job.agent).await?;
        return Ok(false);
    }
    if is_claimed && !job.is_expired {
        return Ok(true);
    }
    let workers = store.workers(lease_millis).await?;
    if job.fence < MAX_CLAIMS && has_suitable(&workers, &job.pool, &job.claimed_by, job) {
        return Ok(true);
    }
    // A claim in this moment goes on.
    Ok(match is_claimed {
        true => !store.give_up_attempt(job, QueuedState::Lost).await?,
        false => store.cancel_attempt(&job.agent).await? == CancelOutcome::Noted,
    })
}

/// Whether a present worker of the pool takes such jobs, and is not one of these.
fn has_suitable(
    workers: &[WorkerRecord],
    pool: &str,
    not_by: &[String],
    attempt: &WorkerAttempt,
) -> bool {
    let labels = labels_of(attempt);
    workers.iter().any(|worker| {
        worker.pool == pool
            && worker.is_present
            && worker.state == WorkerState::Active
            && !not_by.contains(&worker.name)
            && satisfies(&with_capabilities(worker.clone()).labels, &labels)
    })
}

/// The labels that a worker needs for the jobs of an attempt. It needs no agent program.
fn labels_of(attempt: &WorkerAttempt) -> BTreeMap<String, String> {
    let own = attempt.labels.iter().filter(|(key, _)| !key.starts_with(super::OWN_LABELS));
    let mut labels: BTreeMap<String, String> =
        own.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(SANDBOX_LABEL.to_owned(), "full".to_owned());
    labels.insert(CHECKS_LABEL.to_owned(), "accepted".to_owned());
    labels
}

impl<'a> WorkerEvidence<'a> {
    /// The outcomes for work that was received.
    pub(super) fn new(
        context: &'a Context,
        (attempt, subject, claim): (&'a WorkerAttempt, &'a AgentWork, &'a WorkClaim),
        lease_millis: u64,
        here: JobsHere,
    ) -> Result<Self, Failure> {
        let git = subject.repository.git();
        let tree_of = |commit: &str| git.line(["rev-parse", &format!("{commit}^{{tree}}")]);
        let trees = JobTree {
            before: TreeId::new(tree_of(subject.base.as_str())?),
            tree: TreeId::new(tree_of(&claim.commit)?),
        };
        Ok(Self {
            context,
            attempt,
            subject,
            claim,
            lease_millis,
            limits: JobLimits::of(subject.time_of_a_check()),
            trees,
            here,
            awaited: 0,
            failure: None,
        })
    }

    /// How many jobs workers have yet to run.
    pub(super) fn awaited(self) -> Result<usize, Failure> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(self.awaited),
        }
    }

    fn look_up(&self, job: &Job) -> Result<Evidence, Failure> {
        let key = key(self.attempt, &self.trees, job, &Preparation::of(&self.subject.bound.task));
        let name = format!("{}.check-{}", self.attempt.agent, key.get(..16).unwrap_or(&key));
        let queued = self.queued(job, &key, &name)?;
        self.context.with_store(async |store| {
            for ended in store.ended_checks(&self.attempt.pool, &key, &name).await? {
                if let Some(outcome) = self.usable(&ended, job, ended.agent == name) {
                    return Ok(Evidence::Outcome(outcome));
                }
            }
            let awaited = match store.queued_attempt(&name).await? {
                Some(known) => is_awaited(store, &known, self.lease_millis, self.limits).await?,
                None => {
                    let workers = store.workers(self.lease_millis).await?;
                    let (pool, not_by) = (&self.attempt.pool, &self.attempt.claimed_by);
                    has_suitable(&workers, pool, not_by, self.attempt)
                        && store.queue_check(&queued).await?
                }
            };
            Ok(if awaited { Evidence::Awaited } else { Evidence::RunHere })
        })
    }

    /// The outcome of a job that has ended; `None` if it does not count, and the job is run here.
    fn usable(&self, ended: &WorkerAttempt, job: &Job, is_own: bool) -> Option<JobOutcome> {
        if self.attempt.claimed_by.contains(&ended.worker) {
            return None;
        }
        let evidence = ended.finish.as_ref()?.evidence.as_ref()?;
        match self.read(evidence, job) {
            Ok(outcome) => counts(&outcome, is_own).then_some(outcome),
            Err(why) => {
                if is_own && self.here == JobsHere::Run {
                    self.context.notices.note(format_args!(
                        "the worker {} sent no usable outcome of {}: {why}; it is run here",
                        ended.worker, ended.agent
                    ));
                }
                None
            }
        }
    }

    fn read(&self, evidence: &CheckEvidence, job: &Job) -> Result<JobOutcome, String> {
        if evidence.tree != self.trees.tree.as_str() {
            return Err(format!("it is of the tree {}", evidence.tree));
        }
        let outcome: JobOutcome =
            serde_json::from_value(evidence.outcome.clone()).map_err(|error| error.to_string())?;
        require_answer(job, &outcome).map_err(|error| error.to_string())?;
        Ok(outcome)
    }

    /// The job as it is queued.
    fn queued(&self, job: &Job, key: &str, name: &str) -> Result<QueuedCheck, Failure> {
        let unwritable = |error: serde_json::Error| {
            Failure::general(format!("a job cannot be written as JSON: {error}"))
        };
        let check = RemoteCheck {
            repository: super::repository_name(&self.context.directory.display().to_string()),
            checkout: self.context.directory.display().to_string(),
            base: self.subject.base.to_string(),
            head: self.claim.head.clone(),
            commit: self.claim.commit.clone(),
            task: self.subject.bound.source.text.to_string(),
            job: serde_json::to_value(job).map_err(unwritable)?,
            time_millis: u64::try_from(self.subject.time_of_a_check().as_millis())
                .unwrap_or(u64::MAX),
        };
        Ok(QueuedCheck {
            name: name.to_owned(),
            agent: self.attempt.agent.clone(),
            key: key.to_owned(),
            pool: self.attempt.pool.clone(),
            labels: labels_of(self.attempt),
            not_by: self.attempt.claimed_by.clone(),
            launch: serde_json::to_vec(&check).map_err(unwritable)?,
        })
    }
}

/// Everything that the outcome of a job depends on. Of the machine, these are the labels that it must have.
fn key(attempt: &WorkerAttempt, trees: &JobTree, job: &Job, preparation: &Preparation) -> String {
    let parts = [
        VERSION.to_owned(),
        attempt.pool.clone(),
        format!("{:?}", labels_of(attempt)),
        trees.before.to_string(),
        trees.tree.to_string(),
        format!("{job:?}"),
        format!("{preparation:?}"),
    ];
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    Sha256Hex::of(text).to_string()
}

/// Whether an outcome is one of the work. A worker without what a job needs, such as a toolchain or room, says nothing
/// about the work. The failure of another attempt may have had a cause that is gone.
fn counts(outcome: &JobOutcome, is_own: bool) -> bool {
    match outcome {
        JobOutcome::CouldNotRun { .. } => false,
        JobOutcome::TreeChanged { .. } | JobOutcome::Commands(_) | JobOutcome::Tests { .. } => {
            is_own || is_success(outcome)
        }
    }
}

impl JobEvidence for WorkerEvidence<'_> {
    fn find(&mut self, job: &Job, tree: &JobTree) -> Evidence {
        // Only the received commit has a name that a worker can fetch.
        let found = match *tree == self.trees && tree.before != tree.tree {
            true => self.look_up(job),
            false => Ok(Evidence::RunHere),
        };
        match (found, self.here) {
            (Ok(Evidence::Outcome(outcome)), _) => Evidence::Outcome(outcome),
            (Ok(Evidence::Awaited), _) => {
                self.awaited += 1;
                Evidence::Awaited
            }
            (Ok(Evidence::RunHere), JobsHere::Run) => Evidence::RunHere,
            (Ok(Evidence::RunHere), JobsHere::Wait) => Evidence::Awaited,
            (Err(failure), _) => {
                self.failure.get_or_insert(failure);
                Evidence::Awaited
            }
        }
    }
}

/// Whether an outcome is small enough to be stored.
pub(super) fn is_short(evidence: &CheckEvidence) -> bool {
    evidence.tree.len() <= 64 && evidence.outcome.to_string().len() <= MAX_EVIDENCE_BYTES
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::workers::{
        AttemptSummary, FinishReport, NewWorker, NewWorkerToken, ProgressReport, QueuedAttempt,
        WorkerCapabilities,
    };
    use bailiwick_model::event::ExitReason;
    use bailiwick_resources::PodGrants;
    use bailiwick_store::Location;
    use bailiwick_verify::job::{CommandResult, Termination};

    use super::*;

    const HOUR: u64 = 3_600_000;
    const LONG: JobLimits =
        JobLimits { queued: Duration::from_secs(3_600), ended: Duration::from_secs(3_600) };

    async fn join_worker(store: &Store, name: &str) -> WorkerRecord {
        let token = NewWorkerToken {
            digest: format!("token of {name}"),
            pool: "inside".to_owned(),
            created_by: "ada".to_owned(),
            valid_millis: HOUR,
            agent: None,
        };
        store.add_worker_token(&token).await.unwrap();
        let worker = NewWorker {
            name: name.to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            capabilities: WorkerCapabilities {
                sandbox: "full".to_owned(),
                checks: true,
                ..WorkerCapabilities::default()
            },
            version: VERSION.to_owned(),
            credential: format!("credential of {name}"),
        };
        assert!(store.join_worker(&token.digest, &worker, HOUR).await.unwrap());
        let known = store.worker_with_credential(&worker.credential, HOUR).await.unwrap();
        with_capabilities(known.unwrap())
    }

    /// An attempt that the worker `one` has run.
    async fn queue_finished(store: &Store, one: &WorkerRecord) {
        let attempt = QueuedAttempt {
            agent: "mend-1".to_owned(),
            attempt: "mend-1".to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            launch: b"{}".to_vec(),
            checks_on: ChecksOn::Workers,
            pod_grants: PodGrants::default(),
        };
        store.queue_attempt(&attempt).await.unwrap();
        let lease = store.claim_attempt(one, HOUR, None).await.unwrap().unwrap().lease;
        let finish = FinishReport {
            ending: ExitReason::Completed,
            detail: "done".to_owned(),
            summary: AttemptSummary::default(),
            work: None,
            evidence: None,
            not_begun: false,
        };
        store.finish_attempt("one", &lease, &finish).await.unwrap().unwrap();
    }

    async fn queue_check(store: &Store, name: &str) -> WorkerAttempt {
        let check = QueuedCheck {
            name: name.to_owned(),
            agent: "mend-1".to_owned(),
            key: name.to_owned(),
            pool: "inside".to_owned(),
            labels: BTreeMap::new(),
            not_by: vec!["one".to_owned()],
            launch: b"{}".to_vec(),
        };
        assert!(store.queue_check(&check).await.unwrap());
        store.queued_attempt(name).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn slow_job_is_no_longer_awaited_after_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::file(directory.path().join("bailiwick.db"));
        let store = Store::open(location).await.unwrap();
        let (one, two) = (join_worker(&store, "one").await, join_worker(&store, "two").await);
        queue_finished(&store, &one).await;
        // A suitable worker exists, but never has a free slot.
        let waiting = queue_check(&store, "waiting").await;
        assert!(is_awaited(&store, &waiting, HOUR, LONG).await.unwrap(), "the control");
        let short = JobLimits { queued: Duration::ZERO, ..LONG };
        assert!(!is_awaited(&store, &waiting, HOUR, short).await.unwrap());
        let given_up = store.queued_attempt("waiting").await.unwrap().unwrap();
        assert_eq!(given_up.state, QueuedState::Stopped);
        // A worker claims a job, and renews its lease without end.
        queue_check(&store, "running").await;
        let lease = store.claim_attempt(&two, HOUR, None).await.unwrap().unwrap().lease;
        let running = store.queued_attempt("running").await.unwrap().unwrap();
        assert!(is_awaited(&store, &running, HOUR, short).await.unwrap(), "the job has begun");
        let short = JobLimits { ended: Duration::ZERO, ..LONG };
        assert!(!is_awaited(&store, &running, HOUR, short).await.unwrap());
        let report = ProgressReport::default();
        let answer = store.report_attempt("two", &lease, report, HOUR).await.unwrap().unwrap();
        assert!(answer.cancel, "the worker must cancel the job");
        let running = store.queued_attempt("running").await.unwrap().unwrap();
        assert!(!is_awaited(&store, &running, HOUR, short).await.unwrap());
    }

    #[tokio::test]
    async fn outcome_is_reused_only_for_the_same_labels() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::file(directory.path().join("bailiwick.db"));
        let store = Store::open(location).await.unwrap();
        let one = join_worker(&store, "one").await;
        queue_finished(&store, &one).await;
        let attempt = store.queued_attempt("mend-1").await.unwrap().unwrap();
        let key_with = |name: &str, value: &str| {
            let labels = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let attempt = WorkerAttempt { labels, ..attempt.clone() };
            let trees = JobTree { before: TreeId::new("1"), tree: TreeId::new("2") };
            let preparation = Preparation::default();
            key(&attempt, &trees, &Job::Command { line: "make".to_owned() }, &preparation)
        };
        assert_eq!(key_with("zone", "a"), key_with("zone", "a"), "the control");
        assert_ne!(key_with("zone", "a"), key_with("zone", "b"));
        // A job needs no agent program.
        let program = format!("{}program", crate::fleet::remote::OWN_LABELS);
        assert_eq!(key_with(&program, "codex"), key_with(&program, "claude"));
    }

    #[test]
    fn job_that_could_not_run_is_no_evidence() {
        let ran = |code: i32| {
            JobOutcome::Commands(vec![CommandResult {
                line: "make".to_owned(),
                ended: Termination::Exit(code),
                tail: String::new(),
                took: Duration::ZERO,
                executed_tests: None,
            }])
        };
        let could_not_run = JobOutcome::CouldNotRun { why: "no toolchain".to_owned() };
        for (outcome, own, of_others) in
            [(ran(0), true, true), (ran(1), true, false), (could_not_run, false, false)]
        {
            assert_eq!(counts(&outcome, true), own, "{outcome:?}");
            assert_eq!(counts(&outcome, false), of_others, "{outcome:?}");
        }
    }
}
