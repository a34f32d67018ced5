//! What the server knows of workers, and of the attempts that wait for them.

use std::collections::BTreeMap;

use bailiwick_resources::{ChecksOn, Moment, PodGrants, PodProblem, RunCost};
use serde::{Deserialize, Serialize};

use super::protocol::{FinishReport, Lease, ProgressReport, WorkerCapabilities};

/// Whether a worker takes attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerState {
    Active,
    /// It takes no new attempts.
    Cordoned,
    /// It takes no new attempts, and ends once its attempts have ended.
    Draining,
}

impl WorkerState {
    pub const ALL: [Self; 3] = [Self::Active, Self::Cordoned, Self::Draining];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
        }
    }
}

/// A worker that joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    pub name: String,
    pub pool: String,
    pub labels: BTreeMap<String, String>,
    pub capabilities: WorkerCapabilities,
    pub version: String,
    /// The digest of its credential.
    pub credential: String,
}

/// A worker that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRecord {
    pub name: String,
    pub pool: String,
    pub labels: BTreeMap<String, String>,
    pub capabilities: WorkerCapabilities,
    pub version: String,
    pub state: WorkerState,
    pub joined_at: Moment,
    /// Its last request.
    pub seen_at: Moment,
    /// Whether that was within the time of a lease.
    pub is_present: bool,
    /// How many attempts it runs.
    pub running: u64,
}

/// A worker that has joined, and how long ago its last request was, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredWorker {
    pub worker: WorkerRecord,
    pub silent_millis: u64,
}

/// A token with which one worker can join a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkerToken {
    pub digest: String,
    pub pool: String,
    pub created_by: String,
    pub valid_millis: u64,
    /// The only attempt that its worker may run; any of the pool if left out.
    pub agent: Option<String>,
}

/// An attempt that is queued for the workers of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedAttempt {
    pub agent: String,
    pub attempt: String,
    pub pool: String,
    /// The labels that its worker must have.
    pub labels: BTreeMap<String, String>,
    /// What it is launched with. It is stored encrypted.
    pub launch: Vec<u8>,
    /// The machines on which its checks run commands and tests.
    pub checks_on: ChecksOn,
    /// What its pod is granted of its cluster, if it runs in one.
    pub pod_grants: PodGrants,
}

/// A job of a check that is queued for the workers of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedCheck {
    /// Its name in the queue.
    pub name: String,
    /// The run of the ledger whose work is checked.
    pub agent: String,
    /// The digest of the tree and of everything else that the outcome depends on.
    pub key: String,
    pub pool: String,
    /// The labels that a worker must have.
    pub labels: BTreeMap<String, String>,
    /// The workers that have run the attempt.
    pub not_by: Vec<String>,
    /// What a worker is given. It is stored encrypted.
    pub launch: Vec<u8>,
}

/// What a worker has just claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedAttempt {
    pub lease: Lease,
    pub launch: Vec<u8>,
    pub is_check: bool,
}

/// The state of an attempt in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueuedState {
    /// No worker has claimed it.
    Queued,
    Claimed,
    /// Its worker has reported the end; the server has yet to check its work.
    Finished,
    /// The server has checked its work.
    Checked,
    /// The work that its worker sent cannot be used.
    Refused,
    /// Its workers have disappeared.
    Lost,
    /// It was cancelled.
    Stopped,
}

impl QueuedState {
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Claimed,
        Self::Finished,
        Self::Checked,
        Self::Refused,
        Self::Lost,
        Self::Stopped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::Finished => "finished",
            Self::Checked => "checked",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Stopped => "stopped",
        }
    }
}

/// An attempt of the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerAttempt {
    pub agent: String,
    pub pool: String,
    pub labels: BTreeMap<String, String>,
    pub state: QueuedState,
    /// The worker that claimed it last.
    pub worker: String,
    /// How often it was claimed.
    pub fence: u64,
    /// Whether its worker has not been heard of for the time of a lease.
    pub is_expired: bool,
    pub is_cancelled: bool,
    /// The number of its last event.
    pub last_event: u64,
    /// The last report of its worker, without the events.
    pub report: ProgressReport,
    /// What earlier claims have used.
    pub spent: RunCost,
    pub finish: Option<FinishReport>,
    /// Why it was refused.
    pub detail: String,
    /// The machines on which its checks run commands and tests.
    pub checks_on: ChecksOn,
    /// All workers that have claimed it. For the job of a check, those that have run the attempt, too.
    pub claimed_by: Vec<String>,
    /// How long ago it was queued, by the database's clock.
    pub queued_millis: u64,
    /// Its Job, if it runs in one.
    pub job: JobRecord,
    /// What its pod is granted of its cluster.
    pub pod_grants: PodGrants,
}

/// What is recorded of the Kubernetes Job of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRecord {
    /// How many Jobs of the attempt have ended without running it to its end.
    pub ended: u64,
    /// What is wrong with its Job, or with the last one.
    pub problem: Option<PodProblem>,
    /// The same for people.
    pub detail: String,
}

impl WorkerAttempt {
    /// What all claims have used.
    pub fn cost(&self) -> RunCost {
        let (one, other) = (self.spent, self.report.cost);
        RunCost {
            tokens: one.tokens.saturating_add(other.tokens),
            micro_usd: one.micro_usd.saturating_add(other.micro_usd),
            turns: one.turns.saturating_add(other.turns),
            tool_calls: one.tool_calls.saturating_add(other.tool_calls),
            denied: one.denied.saturating_add(other.denied),
        }
    }
}

/// The label with the number of processor cores. An attempt needs at least as many.
pub const CORES_LABEL: &str = "bailiwick.dev/cores";
/// The label of a worker that may run one attempt only, and of that attempt: the run of the ledger.
pub const ATTEMPT_LABEL: &str = "bailiwick.dev/attempt";

impl WorkerAttempt {
    /// Whether it runs in a Kubernetes Job.
    pub fn is_job(&self) -> bool {
        self.labels.contains_key(ATTEMPT_LABEL)
    }
}

/// Whether a worker has all labels that an attempt needs. A worker for one attempt satisfies no other.
pub fn satisfies(worker: &BTreeMap<String, String>, needed: &BTreeMap<String, String>) -> bool {
    let only = worker.get(ATTEMPT_LABEL);
    let has_all = needed.iter().all(|(key, value)| match (worker.get(key), key.as_str()) {
        (None, _) => false,
        (Some(has), CORES_LABEL) => match (has.parse::<u64>(), value.parse::<u64>()) {
            (Ok(has), Ok(needed)) => has >= needed,
            (_, _) => false,
        },
        (Some(has), _) => has == value,
    });
    has_all && (only.is_none() || only == needed.get(ATTEMPT_LABEL))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ATTEMPT_LABEL, CORES_LABEL, satisfies};

    #[test]
    fn worker_needs_every_label_of_the_attempt() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let worker = labels(&[("gpu", "yes"), ("zone", "a")]);
        for (needed, is_suitable) in [
            (labels(&[]), true),
            (labels(&[("gpu", "yes")]), true),
            (labels(&[("gpu", "yes"), ("zone", "a")]), true),
            (labels(&[("gpu", "no")]), false),
            (labels(&[("gpu", "yes"), ("disk", "ssd")]), false),
        ] {
            assert_eq!(satisfies(&worker, &needed), is_suitable, "{needed:?}");
        }
        assert!(!satisfies(&labels(&[]), &labels(&[("gpu", "yes")])));
        for (has, needs, is_suitable) in
            [("8", "4", true), ("8", "8", true), ("8", "10", false), ("many", "1", false)]
        {
            let (has, needs) = (labels(&[(CORES_LABEL, has)]), labels(&[(CORES_LABEL, needs)]));
            assert_eq!(satisfies(&has, &needs), is_suitable, "{has:?} {needs:?}");
        }
        assert!(!satisfies(&labels(&[]), &labels(&[(CORES_LABEL, "1")])));
        let own = labels(&[(ATTEMPT_LABEL, "a-1")]);
        assert!(satisfies(&own, &own));
        assert!(!satisfies(&own, &labels(&[(ATTEMPT_LABEL, "a-2")])));
        assert!(!satisfies(&own, &labels(&[])), "an attempt that any worker of the pool can run");
    }
}
