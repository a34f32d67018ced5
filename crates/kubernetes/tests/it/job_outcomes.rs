//! What a Job and its pod say, and what is concluded from it.

use bailiwick_kubernetes::jobs::{JobStanding, Next, Seen, exceeded, refusal, standing};
use bailiwick_resources::{JobSettings, PodProblem, Reason};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};

use crate::job::made;

fn job(status: Value) -> Job {
    Job { status: serde_json::from_value(status).unwrap(), ..made(&JobSettings::default(), 1) }
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

fn of(job_status: Value, pod_status: Option<Value>) -> JobStanding {
    let (job, pod) = (job(job_status), pod_status.map(pod));
    standing(&Seen { job: &job, pod: pod.as_ref(), quotas: &[], refused: None })
}

/// `waiting Reason`, `retry Reason`, `give up Reason`, or one word.
fn words(standing: &JobStanding) -> String {
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

fn waits(reason: &str) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [container(json!({ "waiting": { "reason": reason } }))] })
}

fn container(state: Value) -> Value {
    json!({ "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

fn exits(code: i32, reason: &str) -> Value {
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
fn what_a_pod_says_becomes_a_reason_and_a_decision() {
    let table = [
        (json!({ "phase": "Pending" }), "waiting"),
        (waits("ContainerCreating"), "waiting"),
        (waits("ErrImagePull"), "waiting ImagePullFailed"),
        (waits("ImagePullBackOff"), "waiting ImagePullFailed"),
        (waits("InvalidImageName"), "give up ImagePullFailed"),
        (waits("CreateContainerConfigError"), "waiting ContainerNotStarted"),
        (unscheduled("Unschedulable"), "waiting Unschedulable"),
        (unscheduled("SchedulingGated"), "waiting"),
        (json!({ "phase": "Running" }), "running"),
        (json!({ "phase": "Unknown" }), "waiting NodeLost"),
        (json!({ "phase": "Succeeded" }), "done"),
        (exits(64, "Error"), "retry WorkerFailed"),
        (exits(65, "Error"), "give up SandboxInsufficient"),
        (exits(66, "Error"), "retry WorkerLost"),
        (exits(1, "Error"), "retry WorkerFailed"),
        (exits(137, "OOMKilled"), "give up OutOfMemory"),
        (exits(137, "ContainerStatusUnknown"), "retry NodeLost"),
        (exits(128, "StartError"), "give up ContainerNotStarted"),
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
        assert_eq!(words(&of(json!({}), Some(status.clone()))), expected, "{status:#}");
    }
}

/// The node is gone: it never says that the pod has ended, and nobody removes the pod.
#[test]
fn a_pod_on_a_lost_node_is_disrupted_although_it_is_said_to_run() {
    let with = |phase: &str, reason: &str| {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": reason });
        json!({ "phase": phase, "conditions": [condition] })
    };
    for (status, expected) in [
        (with("Running", "DeletionByTaintManager"), "disrupted NodeLost"),
        (with("Pending", "PreemptionByScheduler"), "disrupted Preempted"),
        (with("Unknown", "DeletionByPodGC"), "disrupted NodeLost"),
        (with("Succeeded", "DeletionByTaintManager"), "done"),
    ] {
        assert_eq!(words(&of(json!({}), Some(status.clone()))), expected, "{status:#}");
    }
    let job = job(json!({}));
    for (phase, expected) in
        [("Running", "disrupted Evicted"), ("Pending", "disrupted Evicted"), ("Succeeded", "done")]
    {
        let metadata = json!({ "deletionTimestamp": "2026-11-15T18:00:00Z" });
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": metadata, "status": { "phase": phase } }))
                .unwrap();
        let seen = Seen { job: &job, pod: Some(&pod), quotas: &[], refused: None };
        assert_eq!(words(&standing(&seen)), expected, "{phase}");
    }
}

#[test]
fn what_the_job_says_counts_where_its_pod_says_nothing() {
    let condition = |kind: &str, reason: &str| json!({ "conditions": [{ "type": kind, "status": "True", "reason": reason }] });
    assert_eq!(words(&of(json!({}), None)), "waiting");
    assert_eq!(words(&of(condition("Complete", ""), None)), "done");
    let gone = condition("Failed", "BackoffLimitExceeded");
    assert_eq!(words(&of(gone, None)), "retry WorkerLost");
    // The deadline stops the worker, which then says that it was stopped.
    let late = condition("Failed", "DeadlineExceeded");
    assert_eq!(words(&of(late.clone(), Some(exits(66, "Error")))), "give up DeadlineExceeded");
    assert_eq!(words(&of(late, None)), "give up DeadlineExceeded");
    let policy = condition("Failed", "PodFailurePolicy");
    assert_eq!(words(&of(policy, Some(exits(65, "Error")))), "give up SandboxInsufficient");
}

/// The API server answers the same for both; only the quotas themselves tell them apart.
#[test]
fn a_refused_pod_is_a_matter_of_the_quota_or_of_admission() {
    let job = made(&JobSettings::default(), 1);
    let message = "pods \"x\" is forbidden: exceeded quota: agents";
    let full = quota(json!({ "pods": "2" }), json!({ "pods": "2" }));
    let room = quota(json!({ "pods": "2" }), json!({ "pods": "1" }));
    let refused = |quotas: &[ResourceQuota]| {
        let seen = Seen { job: &job, pod: None, quotas, refused: Some(message) };
        words(&standing(&seen))
    };
    assert_eq!(refused(&[room.clone(), full.clone()]), "waiting QuotaExceeded");
    assert_eq!(refused(&[room]), "waiting PodNotAdmitted", "whatever the message says");
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
fn every_problem_is_a_reason_with_the_same_name() {
    for problem in PodProblem::ALL {
        let written = serde_json::to_value(problem).unwrap();
        assert_eq!(written, problem.as_str());
        assert!(Reason::ALL.contains(&problem.reason()));
    }
}
