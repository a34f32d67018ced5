//! The outcome that follows from the status of a Job and its pod.

use bailiwick_kubernetes::jobs::{JobStanding, Next, Seen, exceeded, refusal, standing};
use bailiwick_resources::{JobSettings, PodProblem, Reason};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};

use crate::job::example_job;

fn job(status: Value) -> Job {
    Job {
        status: serde_json::from_value(status).unwrap(),
        ..example_job(&JobSettings::default(), 1)
    }
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap()
}

fn quota(hard: Value, used: Value) -> ResourceQuota {
    let object = json!({
        "metadata": { "name": "agents" },
        "spec": { "hard": hard },
        "status": { "hard": hard, "used": used },
    });
    serde_json::from_value(object).unwrap()
}

fn standing_of(job_status: Value, pod_status: Option<Value>) -> JobStanding {
    let (job, pod) = (job(job_status), pod_status.map(pod));
    standing(&Seen { job: &job, pod: pod.as_ref(), quotas: &[], refused: None })
}

/// `waiting Reason`, `retry Reason`, `give up Reason`, or one word.
fn summary(standing: &JobStanding) -> String {
    match standing {
        JobStanding::Waiting(None) => "waiting".to_owned(),
        JobStanding::Waiting(Some(problem)) => format!("waiting {}", problem.kind.as_str()),
        JobStanding::Running => "running".to_owned(),
        JobStanding::Disrupted(problem) => format!("disrupted {}", problem.kind.as_str()),
        JobStanding::Done => "done".to_owned(),
        JobStanding::Ended(problem, Next::Retry) => format!("retry {}", problem.kind.as_str()),
        JobStanding::Ended(problem, Next::GiveUp) => format!("give up {}", problem.kind.as_str()),
    }
}

fn waiting(reason: &str) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [container(json!({ "waiting": { "reason": reason } }))] })
}

fn container(state: Value) -> Value {
    json!({ "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

fn exited(code: i32, reason: &str) -> Value {
    let state = json!({ "terminated": { "exitCode": code, "reason": reason } });
    json!({ "phase": "Failed", "containerStatuses": [container(state)] })
}

fn disrupted(reason: &str) -> Value {
    let state = json!({ "terminated": { "exitCode": 66, "reason": "Error" } });
    let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": reason });
    json!({ "phase": "Failed", "conditions": [condition], "containerStatuses": [container(state)] })
}

fn failed(reason: &str) -> Value {
    json!({ "phase": "Failed", "reason": reason, "message": "told" })
}

fn unscheduled(reason: &str) -> Value {
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": reason });
    json!({ "phase": "Pending", "conditions": [condition] })
}

#[test]
fn status_of_a_pod_determines_the_reason_and_the_decision() {
    let table = [
        (json!({ "phase": "Pending" }), "waiting"),
        (waiting("ContainerCreating"), "waiting"),
        (waiting("ErrImagePull"), "waiting ImagePullFailed"),
        (waiting("ImagePullBackOff"), "waiting ImagePullFailed"),
        (waiting("InvalidImageName"), "give up ImagePullFailed"),
        (waiting("CreateContainerConfigError"), "waiting ContainerNotStarted"),
        (unscheduled("Unschedulable"), "waiting Unschedulable"),
        (unscheduled("SchedulingGated"), "waiting"),
        (json!({ "phase": "Running" }), "running"),
        (json!({ "phase": "Unknown" }), "waiting NodeLost"),
        (json!({ "phase": "Succeeded" }), "done"),
        (exited(64, "Error"), "retry WorkerFailed"),
        (exited(65, "Error"), "give up SandboxInsufficient"),
        (exited(66, "Error"), "retry WorkerLost"),
        (exited(1, "Error"), "retry WorkerFailed"),
        (exited(137, "OOMKilled"), "give up OutOfMemory"),
        (exited(137, "ContainerStatusUnknown"), "retry NodeLost"),
        (exited(128, "StartError"), "give up ContainerNotStarted"),
        (disrupted("PreemptionByScheduler"), "retry Preempted"),
        (disrupted("DeletionByTaintManager"), "retry NodeLost"),
        (disrupted("DeletionByPodGC"), "retry NodeLost"),
        (disrupted("EvictionByEvictionAPI"), "retry Evicted"),
        (disrupted("TerminationByKubelet"), "retry Evicted"),
        (failed("Evicted"), "retry Evicted"),
        (failed("NodeShutdown"), "retry NodeLost"),
        (failed("OutOfmemory"), "retry Unschedulable"),
        (failed("UnexpectedAdmissionError"), "retry Unschedulable"),
        (failed("DeadlineExceeded"), "give up DeadlineExceeded"),
        (json!({ "phase": "Failed" }), "retry WorkerLost"),
    ];
    for (status, expected) in table {
        assert_eq!(summary(&standing_of(json!({}), Some(status.clone()))), expected, "{status:#}");
    }
}

/// The node is lost: it never reports the end of the pod, and nothing deletes the pod.
#[test]
fn pod_on_a_lost_node_is_disrupted_although_its_phase_is_running() {
    let with_condition = |phase: &str, reason: &str| {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": reason });
        json!({ "phase": phase, "conditions": [condition] })
    };
    for (status, expected) in [
        (with_condition("Running", "DeletionByTaintManager"), "disrupted NodeLost"),
        (with_condition("Pending", "PreemptionByScheduler"), "disrupted Preempted"),
        (with_condition("Unknown", "DeletionByPodGC"), "disrupted NodeLost"),
        (with_condition("Succeeded", "DeletionByTaintManager"), "done"),
    ] {
        assert_eq!(summary(&standing_of(json!({}), Some(status.clone()))), expected, "{status:#}");
    }
    let job = job(json!({}));
    for (phase, expected) in
        [("Running", "disrupted Evicted"), ("Pending", "disrupted Evicted"), ("Succeeded", "done")]
    {
        let metadata = json!({ "deletionTimestamp": "2026-11-15T18:00:00Z" });
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": metadata, "status": { "phase": phase } }))
                .unwrap();
        let observed = Seen { job: &job, pod: Some(&pod), quotas: &[], refused: None };
        assert_eq!(summary(&standing(&observed)), expected, "{phase}");
    }
}

#[test]
fn status_of_the_job_is_used_if_its_pod_gives_no_reason() {
    let condition = |kind: &str, reason: &str| json!({ "conditions": [{ "type": kind, "status": "True", "reason": reason }] });
    assert_eq!(summary(&standing_of(json!({}), None)), "waiting");
    assert_eq!(summary(&standing_of(condition("Complete", ""), None)), "done");
    let failed_job = condition("Failed", "BackoffLimitExceeded");
    assert_eq!(summary(&standing_of(failed_job, None)), "retry WorkerLost");
    // The deadline stops the worker, which then exits with the code for a stop.
    let deadline_exceeded = condition("Failed", "DeadlineExceeded");
    assert_eq!(
        summary(&standing_of(deadline_exceeded.clone(), Some(exited(66, "Error")))),
        "give up DeadlineExceeded"
    );
    assert_eq!(summary(&standing_of(deadline_exceeded, None)), "give up DeadlineExceeded");
    let policy = condition("Failed", "PodFailurePolicy");
    assert_eq!(
        summary(&standing_of(policy, Some(exited(65, "Error")))),
        "give up SandboxInsufficient"
    );
}

/// The API server sends the same error for both; only the status of the quotas distinguishes them.
#[test]
fn refused_pod_is_attributed_to_the_quota_or_to_admission() {
    let job = example_job(&JobSettings::default(), 1);
    let message = "pods \"x\" is forbidden: exceeded quota: agents";
    let full = quota(json!({ "pods": "2" }), json!({ "pods": "2" }));
    let available = quota(json!({ "pods": "2" }), json!({ "pods": "1" }));
    let refused = |quotas: &[ResourceQuota]| {
        let observed = Seen { job: &job, pod: None, quotas, refused: Some(message) };
        summary(&standing(&observed))
    };
    assert_eq!(refused(&[available.clone(), full.clone()]), "waiting QuotaExceeded");
    assert_eq!(refused(&[available]), "waiting PodNotAdmitted", "the message is not parsed");
    assert_eq!(refusal(&[full], &job, message).kind, PodProblem::QuotaExceeded);
    for (hard, used, is_full) in [
        (json!({ "limits.memory": "8Gi" }), json!({ "limits.memory": "4Gi" }), false),
        (json!({ "limits.memory": "8Gi" }), json!({ "limits.memory": "5Gi" }), true),
        (json!({ "requests.cpu": "1" }), json!({ "requests.cpu": "501m" }), true),
        (json!({ "cpu": "1" }), json!({ "cpu": "500m" }), false),
        (json!({ "count/jobs.batch": "1" }), json!({ "count/jobs.batch": "1" }), true),
        (json!({ "services": "0" }), json!({}), false),
    ] {
        let quota = quota(hard.clone(), used);
        assert_eq!(exceeded(&[quota], &job).is_some(), is_full, "{hard}");
    }
}

#[test]
fn every_problem_has_a_reason_with_the_same_name() {
    for problem in PodProblem::ALL {
        let serialized = serde_json::to_value(problem).unwrap();
        assert_eq!(serialized, problem.as_str());
        assert!(Reason::ALL.contains(&problem.reason()));
    }
}
