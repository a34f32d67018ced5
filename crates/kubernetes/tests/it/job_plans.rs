//! What the operator does next about an attempt.

use bailiwick_kubernetes::jobs::{JobStanding, MAX_JOBS, Next, OpenAttempt, Problem, Step, plan};
use bailiwick_resources::PodProblem;

fn open(change: impl FnOnce(&mut OpenAttempt)) -> OpenAttempt {
    let mut open = OpenAttempt {
        attempt: "fixer-1".to_owned(),
        pool: "inside".to_owned(),
        jobs_ended: 0,
        problem: None,
        detail: String::new(),
        is_claimable: true,
        is_cancelled: false,
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
fn an_attempt_without_a_job_gets_one_unless_it_was_cancelled() {
    assert_eq!(plan(&open(|_| {}), None), Step::Create);
    assert_eq!(plan(&open(|open| open.is_cancelled = true), None), Step::Nothing);
}

#[test]
fn a_problem_is_recorded_once_and_removed_when_it_has_passed() {
    let waiting = || Some(JobStanding::Waiting(Some(problem(PodProblem::ImagePullFailed))));
    let Step::Record(Some(recorded)) = plan(&open(|_| {}), waiting()) else { panic!() };
    assert_eq!(recorded.detail, "its pod: ImagePullFailed: told in two lines");
    let known = open(|open| {
        open.problem = Some(recorded.kind);
        open.detail = recorded.detail.clone();
    });
    assert_eq!(plan(&known, waiting()), Step::Nothing);
    assert_eq!(plan(&known, Some(JobStanding::Running)), Step::Record(None));
    assert_eq!(plan(&open(|_| {}), Some(JobStanding::Running)), Step::Nothing);
    assert_eq!(plan(&open(|_| {}), Some(JobStanding::Waiting(None))), Step::Nothing);
}

#[test]
fn a_job_that_ended_is_followed_by_another_one_as_long_as_that_can_help() {
    let is_again = |open: &OpenAttempt, next| match plan(open, ended(next)) {
        Step::Again(_) => true,
        Step::GiveUp(_) => false,
        step => panic!("{step:?}"),
    };
    assert!(is_again(&open(|_| {}), Next::Retry));
    assert!(!is_again(&open(|_| {}), Next::GiveUp));
    assert!(!is_again(&open(|open| open.jobs_ended = MAX_JOBS - 1), Next::Retry));
    assert!(!is_again(&open(|open| open.is_claimable = false), Next::Retry));
    assert!(!is_again(&open(|open| open.is_cancelled = true), Next::Retry));
}
