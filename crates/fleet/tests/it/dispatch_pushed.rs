//! Attempts after a push of the run to its own branch.

use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::Retention;
use bailiwick_fleet::ports::{
    FinishedWork, Fleet as _, Launched, LaunchedState, Rebased, RunVerb, RunVerbRequest, Target,
    WriteBack,
};
use bailiwick_resources::{RunPhase, Span};
use serde_json::json;

use crate::dispatch::{Plane, SHA, agent, caller, in_state, only_run, reconcile, set_state, work};
use crate::dispatch_results::{allowing, pull, run, sent};

/// A run on the branch of a pull request; the work of each attempt is pushed there.
async fn on_a_pull_request() -> Plane {
    let plane = allowing(&[("branch-push", "auto")]).await;
    plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "main"));
    run(&plane, "repair", finished_with('a'), |body| {
        body["sourceRefs"] = json!({ "pullRequest": 5 });
        body["ref"] = json!("refs/heads/main");
    })
    .await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    plane
}

/// An attempt that made this commit.
fn finished_with(commit: char) -> Launched {
    let commit = commit.to_string().repeat(40);
    let work = FinishedWork { commit, report: Some("Done.".to_owned()), ..work() };
    Launched { work: Some(work), ..in_state(LaunchedState::Verified) }
}

fn pushes(plane: &Plane) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for one in sent(plane) {
        if let WriteBack::Push { commit, from, .. } = one {
            all.push((from.unwrap_or_default(), commit));
        }
    }
    all
}

#[tokio::test]
async fn later_attempt_starts_from_the_pushed_commit_with_the_first_kit() {
    for verb in [RunVerb::Retry, RunVerb::Continue] {
        let plane = on_a_pull_request().await;
        let target = Target {
            namespace: "default".to_owned(),
            name: only_run(&plane).await.name().to_owned(),
        };
        let (first, second, third) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        for (attempts, commit) in [(2, 'b'), (3, 'c')] {
            let more = RunVerbRequest { message: "More.".to_owned(), ..RunVerbRequest::default() };
            plane.api.act_on_run(&caller("ada"), &target, verb, more).await.unwrap();
            reconcile(&plane).await;
            set_state(&plane, &agent(&plane), Launched { attempts, ..finished_with(commit) });
            reconcile(&plane).await;
        }
        let expected = [(SHA.to_owned(), first.clone()), (first.clone(), second.clone())];
        let expected = [expected[0].clone(), expected[1].clone(), (second.clone(), third)];
        assert_eq!(pushes(&plane), expected, "{verb:?}");
        let launched = plane.engine.launched.lock().unwrap().clone();
        let bases: Vec<(&str, Option<&str>)> =
            launched.iter().map(|one| (one.base.as_str(), one.kit_commit.as_deref())).collect();
        let kit = Some(SHA);
        assert_eq!(bases, [(SHA, None), (first.as_str(), kit), (second.as_str(), kit)]);
    }
}

/// If another person has pushed in the meantime, that push is not overwritten.
#[tokio::test]
async fn attempt_after_a_foreign_push_with_conflicts_fails() {
    let plane = on_a_pull_request().await;
    let name = only_run(&plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    reconcile(&plane).await;
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), "9".repeat(40));
    let conflict = Rebased::Rejected("src/a.rs conflicts".to_owned());
    plane.engine.rebased.lock().unwrap().insert("9".repeat(40), conflict);
    set_state(&plane, &agent(&plane), finished_with('b'));
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert_eq!(
        pushes(&plane).last().unwrap().0,
        "a".repeat(40),
        "the push expected our own commit"
    );
    assert_eq!(plane.world.forge.heads.lock().unwrap()["main"], "9".repeat(40));
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("src/a.rs conflicts"), "{why}");
}

/// Another attempt after the branch was moved to this commit.
async fn attempt_after_move(plane: &Plane, head: &str, verb: RunVerb) {
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), head.to_owned());
    let name = only_run(plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest { message: "More.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    reconcile(plane).await;
    set_state(plane, &agent(plane), Launched { attempts: 2, ..finished_with('b') });
    reconcile(plane).await;
}

/// The author may have removed our commit or added others; otherwise the branch is at our commit.
#[tokio::test]
async fn retry_starts_from_the_current_head_of_its_branch() {
    for head in ["a".repeat(40), SHA.to_owned(), "9".repeat(40)] {
        let plane = on_a_pull_request().await;
        plane.world.requested_commits.lock().unwrap().clear();
        attempt_after_move(&plane, &head, RunVerb::Retry).await;
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Succeeded, "{head}: {:?}", run.status);
        assert_eq!(pushes(&plane).last(), Some(&(head.clone(), "b".repeat(40))));
        let launch = plane.engine.launched.lock().unwrap().last().unwrap().clone();
        assert_eq!(launch.base, head);
        assert_eq!(
            launch.kit_commit.as_deref(),
            Some(SHA),
            "the pushed commit does not change the kit"
        );
        assert!(
            plane.world.requested_commits.lock().unwrap().contains(&head),
            "the commit has to be fetched"
        );
    }
}

/// A continued conversation keeps its base, and no push of others is overwritten.
#[tokio::test]
async fn continued_attempt_keeps_its_base() {
    let plane = on_a_pull_request().await;
    let conflict = Rebased::Rejected("it conflicts".to_owned());
    plane.engine.rebased.lock().unwrap().insert("9".repeat(40), conflict);
    attempt_after_move(&plane, &"9".repeat(40), RunVerb::Continue).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert_eq!(pushes(&plane).last(), Some(&("a".repeat(40), "b".repeat(40))));
    assert_eq!(plane.world.forge.heads.lock().unwrap()["main"], "9".repeat(40));
    // A retry of it succeeds.
    attempt_after_move(&plane, &"9".repeat(40), RunVerb::Retry).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
}

#[tokio::test]
async fn base_of_a_retry_is_kept_by_retention() {
    let plane = on_a_pull_request().await;
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), "9".repeat(40));
    let name = only_run(&plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    reconcile(&plane).await;
    *plane.world.fetched.lock().unwrap() = vec!["9".repeat(40), "7".repeat(40)];
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    plane.prune(&mut retention).await;
    plane.world.clock.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(*plane.world.fetched.lock().unwrap(), ["9".repeat(40)]);
}
