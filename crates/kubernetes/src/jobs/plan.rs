//! What the operator does next about an attempt. Repeating a step, or doing it from two operators, changes nothing.

use bailiwick_resources::{JobSettings, PodGrants, PodProblem};

use super::job::deadline_seconds;
use super::outcome::{JobStanding, Next, Problem};

/// How many Jobs an attempt gets.
pub const MAX_JOBS: u64 = 3;
/// How much is recorded of a message.
const MAX_DETAIL: usize = 1_000;

/// An attempt that has not ended, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// The attempt: the run of the ledger.
    pub attempt: String,
    /// Its pool.
    pub pool: String,
    /// How many of its Jobs have ended.
    pub jobs_ended: u64,
    /// What was recorded of its Job.
    pub problem: Option<PodProblem>,
    /// The same for people.
    pub detail: String,
    /// Whether a worker can still claim it.
    pub is_claimable: bool,
    /// Whether it was cancelled. Its worker stops it.
    pub is_cancelled: bool,
    /// Whether no worker has a lease of it that is still valid.
    pub is_expired: bool,
    /// How long ago it was queued.
    pub queued_millis: u64,
    /// What its pod is granted of the cluster.
    pub grants: PodGrants,
}

impl OpenAttempt {
    /// The number of the Job that counts.
    pub fn number(&self) -> u64 {
        self.jobs_ended.saturating_add(1)
    }
}

/// What to do about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Make the Job that counts.
    Create,
    /// Record what is wrong with the Job, or that nothing is wrong any more.
    Record(Option<Problem>),
    /// Record that the Job has ended. The next look makes another one.
    Again(Problem),
    /// End the attempt.
    GiveUp(Problem),
}

/// What to do about an attempt whose Job that counts is as far as this; `None` if there is none.
pub fn plan(attempt: &OpenAttempt, standing: Option<JobStanding>) -> Step {
    let Some(standing) = standing else {
        // A worker whose Job was deleted still runs until its lease expires.
        return match attempt.is_cancelled || !attempt.is_expired {
            true => Step::Nothing,
            false => Step::Create,
        };
    };
    match standing {
        JobStanding::Waiting(problem) => record(attempt, problem.map(shortened)),
        // The attempt was read after the Job: its end would be known.
        JobStanding::Done | JobStanding::Running => record(attempt, None),
        JobStanding::Disrupted(problem) => after_end(attempt, problem, Next::Retry),
        JobStanding::Ended(problem, next) => after_end(attempt, problem, next),
    }
}

fn after_end(attempt: &OpenAttempt, problem: Problem, next: Next) -> Step {
    // The worker of this Job, or that of an earlier one, has the attempt and may still run it.
    if !attempt.is_expired {
        return Step::Nothing;
    }
    let problem = shortened(problem);
    let may_retry = next == Next::Retry
        && attempt.number() < MAX_JOBS
        && attempt.is_claimable
        && !attempt.is_cancelled;
    if may_retry { Step::Again(problem) } else { Step::GiveUp(problem) }
}

/// What to do about an attempt whose Job cannot be made. It waits as long as its Job could take.
pub fn without_job(attempt: &OpenAttempt, settings: &JobSettings, problem: Problem) -> Step {
    if !attempt.is_expired {
        return Step::Nothing;
    }
    let problem = shortened(problem);
    let waited = i64::try_from(attempt.queued_millis / 1_000).unwrap_or(i64::MAX);
    match waited >= deadline_seconds(settings) {
        true => Step::GiveUp(problem),
        false => record(attempt, Some(problem)),
    }
}

fn record(attempt: &OpenAttempt, problem: Option<Problem>) -> Step {
    let is_known = match &problem {
        Some(problem) => attempt.problem == Some(problem.kind) && attempt.detail == problem.detail,
        None => attempt.problem.is_none(),
    };
    if is_known { Step::Nothing } else { Step::Record(problem) }
}

/// One line of bounded length that names the pod.
fn shortened(problem: Problem) -> Problem {
    let words: Vec<&str> = problem.detail.split_whitespace().collect();
    let mut detail = format!("its pod: {}: {}", problem.kind.as_str(), words.join(" "));
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
    let detail = detail.trim_end_matches([' ', ':']).to_owned();
    Problem { detail, ..problem }
}
