//! What is wrong with the Job of an attempt, and whether another Job may do better.
//!
//! Only types, reasons and exit codes decide. Messages are passed on to people.

use bailiwick_resources::{PodProblem, WorkerExit};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, Pod, PodCondition, PodStatus, ResourceQuota,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::pause::LastEnd;
use super::quota;

/// Reasons of a waiting container whose image is not there.
const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
    "SignatureValidationFailed",
];
/// Reasons of a waiting container that cannot be started, although its image is there.
const START_REASONS: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "CrashLoopBackOff",
];

/// How long the server may take to record the end of an attempt whose Job is complete.
const MAX_REPORT_DELAY: SignedDuration = SignedDuration::from_secs(300);

/// What is wrong, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: PodProblem,
    /// Details.
    pub detail: String,
}

/// Whether another Job may do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another Job may do better.
    Retry,
    /// It would end in the same way.
    GiveUp,
}

/// How far a Job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobStanding {
    /// Its worker does not run yet. What is wrong may pass, or be corrected.
    Waiting(Option<Problem>),
    /// Its worker runs.
    Running,
    /// Its node is gone, or its pod is being removed. Its worker may still run.
    Disrupted(Problem),
    /// The server has the end of the attempt.
    Done,
    /// It ended without running the attempt to its end.
    Ended(Problem, Next),
}

/// A Job, with what else is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its pod, if it has one.
    pub pod: Option<&'a Pod>,
    /// The quotas of its namespace. They are read only while it has no pod.
    pub quotas: &'a [ResourceQuota],
    /// What the API server said when it refused the pod: the message of an event with the reason `FailedCreate`.
    pub refused: Option<&'a str>,
}

fn problem(kind: PodProblem, detail: impl Into<String>) -> Problem {
    Problem { kind, detail: detail.into() }
}

fn ended(kind: PodProblem, detail: impl Into<String>) -> JobStanding {
    JobStanding::Ended(problem(kind, detail), next(kind))
}

/// Whether another Job may do better where the last one ended with this problem.
fn next(kind: PodProblem) -> Next {
    match kind {
        PodProblem::Evicted
        | PodProblem::Preempted
        | PodProblem::NodeLost
        | PodProblem::WorkerLost
        | PodProblem::WorkerFailed
        | PodProblem::Unschedulable => Next::Retry,
        PodProblem::ImagePullFailed
        | PodProblem::QuotaExceeded
        | PodProblem::PodNotAdmitted
        | PodProblem::ContainerNotStarted
        | PodProblem::OutOfMemory
        | PodProblem::DeadlineExceeded
        | PodProblem::SandboxInsufficient => Next::GiveUp,
    }
}

/// How far a Job is.
pub fn standing(seen: &Seen<'_>) -> JobStanding {
    let status = seen.job.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let holds = |kind: &str| {
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    if holds("Complete").is_some() {
        return JobStanding::Done;
    }
    let failed = holds("Failed").or_else(|| holds("FailureTarget"));
    // The pod was stopped for that, so it does not say why.
    if let Some(failed) =
        failed.filter(|failed| failed.reason.as_deref() == Some("DeadlineExceeded"))
    {
        let told = failed.message.clone().unwrap_or_default();
        return ended(PodProblem::DeadlineExceeded, told);
    }
    let of_pod = seen.pod.and_then(of_pod);
    match (of_pod, failed) {
        (Some(standing @ (JobStanding::Ended(..) | JobStanding::Done)), _) => standing,
        // The pod was deleted before its end was seen.
        (_, Some(failed)) => {
            let told = failed.message.clone().unwrap_or_default();
            ended(PodProblem::WorkerLost, format!("the pod is gone: {told}"))
        }
        (Some(standing), None) => standing,
        (None, None) => JobStanding::Waiting(without_pod(seen)),
    }
}

/// A Job whose worker said long ago that it was done, while the server still has no end of the attempt: its report was
/// lost.
pub fn overdue(standing: JobStanding, end: LastEnd, now: Timestamp) -> JobStanding {
    let is_late = match end {
        LastEnd::At(end) => now.duration_since(end) >= MAX_REPORT_DELAY,
        LastEnd::Gone => true,
        LastEnd::Unknown => false,
    };
    match standing {
        JobStanding::Done if is_late => {
            ended(PodProblem::WorkerFailed, "its worker has ended, and its report did not arrive")
        }
        JobStanding::Done
        | JobStanding::Waiting(_)
        | JobStanding::Running
        | JobStanding::Disrupted(_)
        | JobStanding::Ended(..) => standing,
    }
}

fn without_pod(seen: &Seen<'_>) -> Option<Problem> {
    // A Job that was just made has no pod either.
    let refused = seen.refused?;
    Some(refusal(seen.quotas, seen.job, refused))
}

/// Why the API server refuses a Job or its pod.
pub fn refusal(quotas: &[ResourceQuota], job: &Job, message: &str) -> Problem {
    match quota::exceeded(quotas, job) {
        Some(why) => problem(PodProblem::QuotaExceeded, why),
        None => problem(PodProblem::PodNotAdmitted, message),
    }
}

fn of_pod(pod: &Pod) -> Option<JobStanding> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let disrupted = conditions
        .find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let phase = status.phase.as_deref().unwrap_or_default();
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    Some(match (phase, disrupted) {
        ("Succeeded", _) => JobStanding::Done,
        ("Failed", disrupted) => failed(status, disrupted),
        // A node that does not answer never says that its pod has ended.
        (_, Some(condition)) => JobStanding::Disrupted(disruption(condition)),
        (_, None) if is_deleted => {
            JobStanding::Disrupted(problem(PodProblem::Evicted, "the pod was deleted"))
        }
        ("Running", None) => JobStanding::Running,
        // Its node does not answer. The pod is deleted in the end.
        ("Unknown", None) => {
            JobStanding::Waiting(Some(problem(PodProblem::NodeLost, message(status))))
        }
        (_, None) => pending(status),
    })
}

fn pending(status: &PodStatus) -> JobStanding {
    let unscheduled = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    match unscheduled {
        Some(condition) => JobStanding::Waiting(Some(problem(
            PodProblem::Unschedulable,
            condition.message.clone().unwrap_or_default(),
        ))),
        None => waiting(status),
    }
}

fn message(status: &PodStatus) -> String {
    status.message.clone().unwrap_or_default()
}

fn states(status: &PodStatus) -> impl Iterator<Item = &ContainerState> {
    status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref())
}

fn waiting(status: &PodStatus) -> JobStanding {
    let waiting = states(status).find_map(|state| state.waiting.as_ref());
    let Some(waiting) = waiting else { return JobStanding::Waiting(None) };
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let told = waiting.message.clone().unwrap_or_default();
    // No registry has an image with such a name.
    if reason == "InvalidImageName" {
        return ended(PodProblem::ImagePullFailed, told);
    }
    let kind = [
        (PodProblem::ImagePullFailed, &IMAGE_REASONS[..]),
        (PodProblem::ContainerNotStarted, &START_REASONS[..]),
    ];
    let kind = kind.into_iter().find(|(_, reasons)| reasons.contains(&reason));
    JobStanding::Waiting(kind.map(|(kind, _)| problem(kind, format!("{reason}: {told}"))))
}

fn disruption(condition: &PodCondition) -> Problem {
    let kind = match condition.reason.as_deref() {
        Some("PreemptionByScheduler") => PodProblem::Preempted,
        Some("DeletionByTaintManager" | "DeletionByPodGC") => PodProblem::NodeLost,
        Some(_) | None => PodProblem::Evicted,
    };
    problem(kind, condition.message.clone().unwrap_or_default())
}

/// A pod that was disturbed stops its worker, whose exit code then means little.
fn failed(status: &PodStatus, disrupted: Option<&PodCondition>) -> JobStanding {
    if let Some(condition) = disrupted {
        let problem = disruption(condition);
        let next = next(problem.kind);
        return JobStanding::Ended(problem, next);
    }
    match status.reason.as_deref() {
        Some("Evicted") => return ended(PodProblem::Evicted, message(status)),
        Some("Preempting") => return ended(PodProblem::Preempted, message(status)),
        Some("NodeLost" | "NodeShutdown" | "Terminated" | "Shutdown") => {
            return ended(PodProblem::NodeLost, message(status));
        }
        Some("DeadlineExceeded") => return ended(PodProblem::DeadlineExceeded, message(status)),
        // The node had less room than the scheduler thought: `OutOfcpu`, `OutOfpods` and so on.
        Some(reason)
            if reason.starts_with("OutOf")
                || ["NodeAffinity", "NodePorts", "UnexpectedAdmissionError"].contains(&reason) =>
        {
            return ended(PodProblem::Unschedulable, message(status));
        }
        Some(_) | None => {}
    }
    let terminated = states(status).find_map(|state| state.terminated.as_ref());
    match terminated {
        Some(terminated) => terminated_container(terminated),
        None => ended(PodProblem::WorkerLost, message(status)),
    }
}

fn terminated_container(terminated: &ContainerStateTerminated) -> JobStanding {
    let told = terminated.message.clone().unwrap_or_default();
    match terminated.reason.as_deref() {
        Some("OOMKilled") => return ended(PodProblem::OutOfMemory, told),
        Some("ContainerStatusUnknown") => return ended(PodProblem::NodeLost, told),
        Some("StartError" | "ContainerCannotRun") => {
            return ended(PodProblem::ContainerNotStarted, told);
        }
        Some(_) | None => {}
    }
    let code = terminated.exit_code;
    let exit = WorkerExit::ALL.into_iter().find(|exit| i32::from(exit.code()) == code);
    match exit {
        Some(WorkerExit::Done) => JobStanding::Done,
        Some(WorkerExit::NothingToDo) => ended(
            PodProblem::WorkerFailed,
            format!(
                "the server had no attempt for its worker; does the image have the agent program? {told}"
            ),
        ),
        Some(WorkerExit::CannotRunHere) => ended(PodProblem::SandboxInsufficient, told),
        Some(WorkerExit::Lost) => ended(PodProblem::WorkerLost, told),
        None => ended(PodProblem::WorkerFailed, format!("exit code {code}: {told}")),
    }
}
