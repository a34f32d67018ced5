//! The next step of the operator for an attempt.

use bailiwick_kubernetes::jobs::{
    JobStanding, LastEnd, MAX_JOBS, Next, OpenAttempt, Problem, Step, is_due, last_end, plan,
    without_job,
};
use bailiwick_resources::{JobSettings, PodGrants, PodProblem};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::job::example_job;

fn open(change: impl FnOnce(&mut OpenAttempt)) -> OpenAttempt {
    let mut open = OpenAttempt {
        attempt: "fixer-1".to_owned(),
        pool: "inside".to_owned(),
        jobs_ended: 0,
        problem: None,
        detail: String::new(),
        is_claimable: true,
        is_cancelled: false,
        is_expired: true,
        queued_millis: 0,
        grants: PodGrants::default(),
    };
    change(&mut open);
    open
}

fn problem(kind: PodProblem) -> Problem {
    Problem { kind, detail: "told\nin two lines".to_owned() }
}

fn ended(next: Next) -> Option<JobStanding> {
    Some(JobStanding::Ended(problem(PodProblem::Evicted), next))
}

#[test]
fn attempt_without_a_job_gets_one_unless_it_was_cancelled() {
    assert_eq!(plan(&open(|_| {}), None), Step::Create);
    assert_eq!(plan(&open(|open| open.is_cancelled = true), None), Step::Nothing);
}

#[test]
fn problem_is_recorded_once_and_removed_when_it_is_solved() {
    let waiting = || Some(JobStanding::Waiting(Some(problem(PodProblem::ImagePullFailed))));
    let Step::Record(Some(recorded)) = plan(&open(|_| {}), waiting()) else { panic!() };
    assert_eq!(recorded.detail, "its pod: ImagePullFailed: told in two lines");
    let with_problem = open(|open| {
        open.problem = Some(recorded.kind);
        open.detail = recorded.detail.clone();
    });
    assert_eq!(plan(&with_problem, waiting()), Step::Nothing);
    assert_eq!(plan(&with_problem, Some(JobStanding::Running)), Step::Record(None));
    assert_eq!(plan(&open(|_| {}), Some(JobStanding::Running)), Step::Nothing);
    assert_eq!(plan(&open(|_| {}), Some(JobStanding::Waiting(None))), Step::Nothing);
}

#[test]
fn ended_job_is_replaced_only_if_a_retry_is_allowed() {
    let is_retried = |open: &OpenAttempt, next| match plan(open, ended(next)) {
        Step::Again(_) => true,
        Step::GiveUp(_) => false,
        step => panic!("{step:?}"),
    };
    assert!(is_retried(&open(|_| {}), Next::Retry));
    assert!(!is_retried(&open(|_| {}), Next::GiveUp));
    assert!(!is_retried(&open(|open| open.jobs_ended = MAX_JOBS - 1), Next::Retry));
    assert!(!is_retried(&open(|open| open.is_claimable = false), Next::Retry));
    assert!(!is_retried(&open(|open| open.is_cancelled = true), Next::Retry));
}

/// The worker of an earlier Job may own the attempt: its results are accepted until its lease expires.
#[test]
fn no_step_is_taken_while_a_worker_has_a_valid_lease() {
    let disrupted = || Some(JobStanding::Disrupted(problem(PodProblem::NodeLost)));
    let running = open(|open| open.is_expired = false);
    for standing in [None, disrupted(), ended(Next::Retry), ended(Next::GiveUp)] {
        assert_eq!(plan(&running, standing), Step::Nothing);
    }
    assert!(matches!(plan(&open(|_| {}), disrupted()), Step::Again(_)));
    let last = open(|open| open.jobs_ended = MAX_JOBS - 1);
    assert!(matches!(plan(&last, disrupted()), Step::GiveUp(_)));
}

#[test]
fn attempt_whose_job_cannot_be_created_ends_after_the_deadline() {
    let settings = JobSettings { deadline: Some("2h".parse().unwrap()), ..JobSettings::default() };
    let after = |hours: u64, settings: &JobSettings| {
        let open = open(|open| open.queued_millis = hours * 3_600_000);
        without_job(&open, settings, problem(PodProblem::QuotaExceeded))
    };
    assert!(matches!(after(1, &settings), Step::Record(Some(_))));
    assert!(matches!(after(2, &settings), Step::GiveUp(_)));
    assert!(matches!(after(5, &JobSettings::default()), Step::Record(Some(_))));
    assert!(matches!(after(6, &JobSettings::default()), Step::GiveUp(_)));
    let claimed = open(|open| {
        open.is_expired = false;
        open.queued_millis = u64::MAX;
    });
    let problem = problem(PodProblem::PodNotAdmitted);
    assert_eq!(without_job(&claimed, &settings, problem), Step::Nothing);
}

#[test]
fn restarting_server_does_not_use_up_all_jobs() {
    let now: Timestamp = "2026-11-15T18:10:00Z".parse().unwrap();
    let ago = |seconds: i64| LastEnd::At(now - SignedDuration::from_secs(seconds));
    for (number, last, expected) in [
        (1, LastEnd::Unknown, true),
        (2, LastEnd::Gone, true),
        (2, LastEnd::Unknown, false),
        (2, ago(29), false),
        (2, ago(30), true),
        (3, ago(30), false),
        (3, ago(120), true),
    ] {
        assert_eq!(is_due(number, last, now), expected, "{number} {last:?}");
    }
}

#[test]
fn end_of_a_job_is_the_latest_known_time() {
    let pod = |pod: serde_json::Value| serde_json::from_value::<Pod>(pod).unwrap();
    let at = |text: &str| LastEnd::At(text.parse().unwrap());
    let mut job = example_job(&JobSettings::default(), 1);
    assert_eq!(last_end(None, None), LastEnd::Gone);
    assert_eq!(last_end(Some(&job), None), LastEnd::Unknown);
    let terminated = json!({ "exitCode": 1, "finishedAt": "2026-11-15T18:00:00Z" });
    let container = json!({
        "name": "worker", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": terminated },
    });
    let ended = pod(json!({ "metadata": {}, "status": { "containerStatuses": [container] } }));
    assert_eq!(last_end(Some(&job), Some(&ended)), at("2026-11-15T18:00:00Z"));
    let deleted = pod(json!({ "metadata": { "deletionTimestamp": "2026-11-15T18:00:05Z" } }));
    assert_eq!(last_end(Some(&job), Some(&deleted)), at("2026-11-15T18:00:05Z"));
    let failed =
        json!({ "type": "Failed", "status": "True", "lastTransitionTime": "2026-11-15T18:00:09Z" });
    job.status = serde_json::from_value(json!({ "conditions": [failed] })).unwrap();
    assert_eq!(last_end(Some(&job), Some(&ended)), at("2026-11-15T18:00:09Z"));
    assert_eq!(last_end(Some(&job), None), at("2026-11-15T18:00:09Z"));
}
