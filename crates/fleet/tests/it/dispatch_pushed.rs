//! What comes after a push of ours to the branch that a run is about.

use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::Retention;
use bailiwick_fleet::ports::{
    FinishedWork, Fleet as _, Launched, LaunchedState, Rebased, RunVerb, RunVerbRequest, Target,
    WriteBack,
};
use bailiwick_resources::{RunPhase, Span};
use serde_json::json;

use crate::dispatch::{Plane, SHA, agent, caller, only_run, set, standing, turn, work};
use crate::dispatch_results::{allowing, pull, run, sent};

/// A run about a pull request's own branch, which the forge knows; what each attempt made goes there.
async fn on_a_pull_request() -> Plane {
    let plane = allowing(&[("branch-push", "auto")]).await;
    plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "main"));
    run(&plane, "repair", made('a'), |wish| {
        wish["sourceRefs"] = json!({ "pullRequest": 5 });
        wish["ref"] = json!("refs/heads/main");
    })
    .await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    plane
}

/// An attempt that made this commit.
fn made(commit: char) -> Launched {
    let commit = commit.to_string().repeat(40);
    let work = FinishedWork { commit, report: Some("Done.".to_owned()), ..work() };
    Launched { work: Some(work), ..standing(LaunchedState::Verified) }
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
async fn what_comes_after_our_own_push_stands_on_it_and_is_bound_by_the_first_commit() {
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
            turn(&plane).await;
            set(&plane, &agent(&plane), Launched { attempts, ..made(commit) });
            turn(&plane).await;
        }
        let expected = [(SHA.to_owned(), first.clone()), (first.clone(), second.clone())];
        let expected = [expected[0].clone(), expected[1].clone(), (second.clone(), third)];
        assert_eq!(pushes(&plane), expected, "{verb:?}");
        let launched = plane.engine.launched.lock().unwrap().clone();
        let bases: Vec<(&str, Option<&str>)> =
            launched.iter().map(|one| (one.base.as_str(), one.kit_from.as_deref())).collect();
        let bound = Some(SHA);
        assert_eq!(bases, [(SHA, None), (first.as_str(), bound), (second.as_str(), bound)]);
    }
}

/// Where somebody else has pushed meanwhile, nothing of theirs is overwritten.
#[tokio::test]
async fn what_comes_after_a_stranger_s_push_is_refused() {
    let plane = on_a_pull_request().await;
    let name = only_run(&plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    turn(&plane).await;
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), "9".repeat(40));
    let conflict = Rebased::Rejected("src/a.rs conflicts".to_owned());
    plane.engine.rebased.lock().unwrap().insert("9".repeat(40), conflict);
    set(&plane, &agent(&plane), made('b'));
    turn(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert_eq!(pushes(&plane).last().unwrap().0, "a".repeat(40), "it was asked for our own commit");
    assert_eq!(plane.world.forge.heads.lock().unwrap()["main"], "9".repeat(40));
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("src/a.rs conflicts"), "{why}");
}

/// Another attempt, after somebody has moved the branch to this commit.
async fn again_at(plane: &Plane, head: &str, verb: RunVerb) {
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), head.to_owned());
    let name = only_run(plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest { message: "More.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    turn(plane).await;
    set(plane, &agent(plane), Launched { attempts: 2, ..made('b') });
    turn(plane).await;
}

/// Its author may have taken our commit off it, or put more on it; where nobody did, it is our own.
#[tokio::test]
async fn a_retry_begins_where_its_branch_is_now() {
    for head in ["a".repeat(40), SHA.to_owned(), "9".repeat(40)] {
        let plane = on_a_pull_request().await;
        plane.world.brought.lock().unwrap().clear();
        again_at(&plane, &head, RunVerb::Retry).await;
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Succeeded, "{head}: {:?}", run.status);
        assert_eq!(pushes(&plane).last(), Some(&(head.clone(), "b".repeat(40))));
        let launch = plane.engine.launched.lock().unwrap().last().unwrap().clone();
        assert_eq!(launch.base, head);
        assert_eq!(launch.kit_from.as_deref(), Some(SHA), "what was pushed binds nobody");
        assert!(plane.world.brought.lock().unwrap().contains(&head), "it has to be here");
    }
}

/// One that goes on with a conversation has its work where it was: nothing of anybody's is overwritten.
#[tokio::test]
async fn a_continuation_does_not_leave_where_its_work_is() {
    let plane = on_a_pull_request().await;
    let conflict = Rebased::Rejected("it conflicts".to_owned());
    plane.engine.rebased.lock().unwrap().insert("9".repeat(40), conflict);
    again_at(&plane, &"9".repeat(40), RunVerb::Continue).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert_eq!(pushes(&plane).last(), Some(&("a".repeat(40), "b".repeat(40))));
    assert_eq!(plane.world.forge.heads.lock().unwrap()["main"], "9".repeat(40));
    // A retry of it does not fail as that did.
    again_at(&plane, &"9".repeat(40), RunVerb::Retry).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
}

#[tokio::test]
async fn what_a_retry_stands_on_is_held_for_it() {
    let plane = on_a_pull_request().await;
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), "9".repeat(40));
    let name = only_run(&plane).await.name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    turn(&plane).await;
    *plane.world.fetched.lock().unwrap() = vec!["9".repeat(40), "7".repeat(40)];
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    plane.prune(&mut retention).await;
    plane.world.clock.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(*plane.world.fetched.lock().unwrap(), ["9".repeat(40)]);
}
