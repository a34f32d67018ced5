//! How long an attempt waits for its next Job, so that a server that restarts does not use up all of them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The pause before the second Job.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The pause before each later one.
const NEXT_PAUSE: SignedDuration = SignedDuration::from_secs(120);

/// When the Job before has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastEnd {
    /// There is no such Job any more.
    Gone,
    /// It has not ended yet, as far as the cluster says.
    Unknown,
    /// It ended then.
    At(Timestamp),
}

/// Whether a Job has ended.
pub fn has_ended(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// When a Job has ended, by the last of all times that the cluster has for it.
pub fn last_end(job: Option<&Job>, pod: Option<&Pod>) -> LastEnd {
    let Some(job) = job else { return LastEnd::Gone };
    match of_job(job).chain(pod.into_iter().flat_map(of_pod)).map(|time| time.0).max() {
        Some(time) => LastEnd::At(time),
        None if has_ended(job) => LastEnd::Gone,
        None => LastEnd::Unknown,
    }
}

fn of_job(job: &Job) -> impl Iterator<Item = &Time> {
    let conditions = job.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions
        .filter(|condition| {
            condition.status == "True"
                && matches!(condition.type_.as_str(), "Complete" | "Failed" | "FailureTarget")
        })
        .filter_map(|condition| condition.last_transition_time.as_ref())
}

fn of_pod(pod: &Pod) -> impl Iterator<Item = &Time> {
    let disruptions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let disruptions = disruptions
        .filter(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
        .filter_map(|condition| condition.last_transition_time.as_ref());
    let containers =
        pod.status.iter().filter_map(|status| status.container_statuses.as_ref()).flatten();
    let containers = containers.filter_map(|container| {
        container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()
    });
    disruptions.chain(containers).chain(pod.metadata.deletion_timestamp.as_ref())
}

/// Whether the Job with this number may be made now.
pub fn is_due(number: u64, last: LastEnd, now: Timestamp) -> bool {
    let pause = match number {
        0 | 1 => return true,
        2 => FIRST_PAUSE,
        _ => NEXT_PAUSE,
    };
    match last {
        LastEnd::Gone => true,
        LastEnd::Unknown => false,
        LastEnd::At(end) => now.duration_since(end) >= pause,
    }
}
