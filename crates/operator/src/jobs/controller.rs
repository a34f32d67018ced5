//! Compares the attempts that wait with the Jobs that there are, and does what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiwick_kubernetes::jobs::{AttemptJob, JobStanding, Seen, Step, plan, standing};
use bailiwick_kubernetes::manifests::Label;
use bailiwick_resources::JobSettings;
use k8s_openapi::api::batch::v1::Job;
use thiserror::Error;

use super::cluster::{ClusterError, Created, JobCluster, Listed};
use super::queue::{AttemptQueue, QueueError, QueuedJob};

/// How often everything is compared.
const ROUND_INTERVAL: Duration = Duration::from_secs(2);
/// For how many rounds a Job may run for nothing before it is deleted.
const ORPHAN_ROUNDS: u32 = 15;
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Why a round did not end.
#[derive(Debug, Error)]
pub enum RoundError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Runs attempts in Jobs.
pub struct JobController<Q> {
    queue: Q,
    cluster: JobCluster,
    /// The namespaces in which Jobs are looked for, besides those of the pools of open attempts.
    namespaces: BTreeSet<Label>,
    /// The namespaces that have their network policy.
    protected: BTreeSet<Label>,
    /// The Jobs that have their token, by their uid.
    handed: BTreeSet<String>,
    /// For how many rounds a Job has run for nothing, by its uid.
    orphans: BTreeMap<String, u32>,
}

impl<Q: AttemptQueue> JobController<Q> {
    /// `namespaces` are those in which Jobs may be from an earlier time.
    pub fn new(queue: Q, cluster: JobCluster, namespaces: Vec<Label>) -> Self {
        Self {
            queue,
            cluster,
            namespaces: namespaces.into_iter().collect(),
            protected: BTreeSet::new(),
            handed: BTreeSet::new(),
            orphans: BTreeMap::new(),
        }
    }

    /// Compares again and again until it is shut down. `failed` is called with what goes wrong; the next round tries
    /// again.
    pub async fn run(mut self, failed: impl Fn(&RoundError), shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut pause = ROUND_INTERVAL;
        loop {
            let round = tokio::select! {
                () = &mut shutdown => return,
                round = self.round() => round,
            };
            pause = match round {
                Ok(()) => ROUND_INTERVAL,
                Err(error) => {
                    failed(&error);
                    (pause * 2).min(MAX_BACKOFF)
                }
            };
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One comparison. Jobs are read before attempts: so the attempt of a Job that has done its work is not open any
    /// more, and no Job is taken for an orphan whose attempt is only new.
    pub async fn round(&mut self) -> Result<(), RoundError> {
        let namespaces: Vec<Label> = self.namespaces.iter().cloned().collect();
        let listed = self.cluster.list(&namespaces).await?;
        let there: BTreeSet<_> =
            listed.all().filter_map(|(_, _, job)| job.metadata.uid.as_ref()).collect();
        self.handed.retain(|uid| there.contains(uid));
        let open = self.queue.open().await?;
        let mut first_error = None;
        for queued in &open {
            // One attempt that cannot be helped does not stop the others.
            if let Err(error) = self.attend(queued, &listed).await {
                first_error.get_or_insert(error);
            }
        }
        self.delete_orphans(&open, &listed).await?;
        first_error.map_or(Ok(()), Err)
    }

    async fn attend(&mut self, queued: &QueuedJob, listed: &Listed) -> Result<(), RoundError> {
        let open = &queued.open;
        let Some(settings) = &queued.settings else { return Ok(()) };
        let wanted = AttemptJob {
            attempt: &open.attempt,
            pool: &open.pool,
            settings,
            number: open.number(),
        };
        let namespace = self.cluster.namespace(&wanted);
        let is_known = !self.namespaces.insert(namespace.clone());
        let job = listed.job(&open.attempt, wanted.number);
        if job.is_none() && !is_known {
            // Its namespace was not listed. The next round sees it.
            return Ok(());
        }
        let standing = match job {
            Some(job) => Some(self.standing(job, listed).await?),
            None => None,
        };
        if let (Some(job), Some(JobStanding::Waiting(_))) = (job, &standing) {
            self.hand_token(queued, job).await?;
        }
        match plan(open, standing) {
            Step::Nothing => {}
            Step::Create => return self.create(queued, settings, &namespace).await,
            Step::Record(problem) => self.queue.record(open, problem.as_ref(), false).await?,
            Step::Again(problem) => self.queue.record(open, Some(&problem), true).await?,
            Step::GiveUp(problem) => self.queue.give_up(open, &problem).await?,
        }
        Ok(())
    }

    async fn create(
        &mut self,
        queued: &QueuedJob,
        settings: &JobSettings,
        namespace: &Label,
    ) -> Result<(), RoundError> {
        let open = &queued.open;
        if !self.protected.contains(namespace) {
            self.cluster.apply_network_policy(namespace).await?;
            self.protected.insert(namespace.clone());
        }
        let wanted = AttemptJob {
            attempt: &open.attempt,
            pool: &open.pool,
            settings,
            number: open.number(),
        };
        match self.cluster.create(&wanted).await? {
            Created::Job(job) => self.hand_token(queued, &job).await,
            Created::Refused(problem) => {
                let refused = Some(JobStanding::Waiting(Some(problem)));
                match plan(open, refused) {
                    Step::Record(problem) => {
                        Ok(self.queue.record(open, problem.as_ref(), false).await?)
                    }
                    Step::Nothing | Step::Create | Step::Again(_) | Step::GiveUp(_) => Ok(()),
                }
            }
        }
    }

    /// The pod waits until its secret is there. A token that was made before a kill expires unused.
    async fn hand_token(&mut self, queued: &QueuedJob, job: &Job) -> Result<(), RoundError> {
        let Some(uid) = job.metadata.uid.clone() else { return Ok(()) };
        if self.handed.contains(&uid) {
            return Ok(());
        }
        let token = self.queue.token(&queued.open).await?;
        self.cluster.add_token(job, &token).await?;
        self.handed.insert(uid);
        Ok(())
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

    /// Deletes Jobs that run for nothing: of attempts that have ended, and earlier ones of an attempt. Workers get some
    /// time to end by themselves. Jobs that have ended stay for their log, until the cluster deletes them.
    async fn delete_orphans(
        &mut self,
        open: &[QueuedJob],
        listed: &Listed,
    ) -> Result<(), RoundError> {
        let counting: BTreeMap<&str, u64> =
            open.iter().map(|one| (one.open.attempt.as_str(), one.open.number())).collect();
        let before = std::mem::take(&mut self.orphans);
        for (attempt, number, job) in listed.all() {
            let counts = counting.get(attempt).is_some_and(|counting| number >= *counting);
            if counts || has_ended(job) || job.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let Some(uid) = job.metadata.uid.clone() else { continue };
            let rounds = before.get(&uid).map_or(1, |rounds| rounds.saturating_add(1));
            if rounds >= ORPHAN_ROUNDS {
                self.cluster.delete(job).await?;
            }
            self.orphans.insert(uid, rounds);
        }
        Ok(())
    }
}

fn has_ended(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}
