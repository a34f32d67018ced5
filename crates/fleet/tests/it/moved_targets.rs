//! Targets that move, close or are protected between a request and its write.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    AccountProblem, ActionError, FinishedWork, Fleet as _, FleetStore as _, ForgeError, Launched,
    LaunchedState, PullRequestState, Rebased, Target, Verdict, World as _, WriteBack,
};
use bailiwick_resources::{
    AgentApproval, ApprovalPhase, ConditionType, Kind, Object, Reason, RunPhase, Standing,
    WriteBackState, WriteBackTarget,
};
use serde_json::json;

use crate::dispatch::{Plane, SHA, all, in_state, only_run, reconcile, start_plane, work};
use crate::dispatch_results::{allowing, answer, pull, question, run, sent, verified_with_report};

fn tip(digit: char) -> String {
    digit.to_string().repeat(40)
}

/// Work that was rebased onto another commit.
fn rebased_onto(base: &str) -> Rebased {
    Rebased::Verified(FinishedWork {
        base: base.to_owned(),
        commit: tip('d'),
        tree: tip('c'),
        patch: b"+a rebased line\n".to_vec(),
        verdict: "4 checks passed".to_owned(),
        ..work()
    })
}

/// A run about a pull request, with these write targets.
async fn plane_with_push(targets: &[(&str, &str)]) -> Plane {
    let plane = allowing(targets).await;
    plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "main"));
    run(&plane, "repair", verified_with_report("Done."), about_five).await;
    plane
}

fn about_five(request_json: &mut serde_json::Value) {
    request_json["sourceRefs"] = json!({ "pullRequest": 5 });
    request_json["ref"] = json!("refs/heads/main");
}

fn move_to(plane: &Plane, commit: &str) {
    plane.world.forge.heads.lock().unwrap().insert("main".to_owned(), commit.to_owned());
}

fn rebases_to(plane: &Plane, onto: &str, result: Rebased) {
    plane.engine.rebased.lock().unwrap().insert(onto.to_owned(), result);
}

async fn pending(plane: &Plane) -> Vec<Object<AgentApproval>> {
    let mut all = all::<AgentApproval>(plane).await;
    all.retain(|one| one.status.phase == ApprovalPhase::Pending);
    all
}

fn pushed(plane: &Plane) -> Vec<(Option<String>, String)> {
    let mut all = Vec::new();
    for one in sent(plane) {
        if let WriteBack::Push { commit, from, .. } = one {
            all.push((from, commit));
        }
    }
    all
}

fn code(refused: Result<(), ActionError>) -> (String, String) {
    let Err(ActionError::Conflict { code, message }) = refused else { panic!("{refused:?}") };
    (code, message)
}

#[tokio::test]
async fn moved_branch_refuses_the_approval_and_the_rebased_change_is_requested() {
    let plane = plane_with_push(&[("branch-push", "always-approve")]).await;
    let first = question(&plane, WriteBackTarget::BranchPush).await;
    move_to(&plane, &tip('9'));
    let (code, message) = code(answer(&plane, &first, "bob", Verdict::Approve).await);
    assert_eq!(code, "TargetMoved");
    assert!(message.contains(SHA) && message.contains(&tip('9')), "{message}");
    // The change is rebased and checked again; it cannot be approved in the meantime.
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Running, "{:?}", run.status);
    assert_eq!(run.status.write_backs[0].moved_to, Some(tip('9')));
    assert!(answer(&plane, &first, "bob", Verdict::Approve).await.is_err());
    assert_eq!(pushed(&plane), []);
    rebases_to(&plane, &tip('9'), rebased_onto(&tip('9')));
    reconcile(&plane).await;
    let pending_approvals = pending(&plane).await;
    let [second] = &pending_approvals[..] else { panic!("{pending_approvals:?}") };
    assert_ne!(second.spec.artifact_digest, first.spec.artifact_digest);
    assert_eq!(second.spec.target_state, Some(tip('9')));
    assert!(second.spec.action.summary.contains("4 checks passed"), "{second:?}");
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::WaitingForApproval);
    assert_eq!(run.status.write_backs[0].rebases, 1);
    // The old request is closed: its digest cannot be approved.
    assert!(answer(&plane, &first, "bob", Verdict::Approve).await.is_err());
    answer(&plane, second, "bob", Verdict::Approve).await.unwrap();
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(pushed(&plane), [(Some(tip('9')), tip('d'))]);
    // The replaced request does not count as expired.
    let satisfied =
        |one: &&bailiwick_resources::Condition| one.kind == ConditionType::ApprovalSatisfied;
    let one = run.status.conditions.iter().find(satisfied).unwrap();
    assert_eq!((one.status, one.reason), (Standing::True, Reason::ApprovalsGranted));
}

#[tokio::test]
async fn change_is_requested_again_if_its_branch_moves_after_the_approval() {
    let plane = plane_with_push(&[("branch-push", "always-approve")]).await;
    let first = question(&plane, WriteBackTarget::BranchPush).await;
    answer(&plane, &first, "bob", Verdict::Approve).await.unwrap();
    move_to(&plane, &tip('9'));
    rebases_to(&plane, &tip('9'), rebased_onto(&tip('9')));
    reconcile(&plane).await;
    assert_eq!(pushed(&plane), [], "the approved change differs from the current one");
    let pending_approvals = pending(&plane).await;
    let [second] = &pending_approvals[..] else { panic!("{pending_approvals:?}") };
    assert_eq!(second.spec.target_state, Some(tip('9')));
    // The branch moves again before the decision.
    move_to(&plane, &tip('8'));
    let (code, _) = code(answer(&plane, second, "bob", Verdict::Approve).await);
    assert_eq!(code, "TargetMoved");
    rebases_to(&plane, &tip('8'), rebased_onto(&tip('8')));
    reconcile(&plane).await;
    let pending_approvals = pending(&plane).await;
    answer(&plane, &pending_approvals[0], "bob", Verdict::Approve).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(pushed(&plane), [(Some(tip('8')), tip('d'))]);
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
}

#[tokio::test]
async fn change_without_approval_is_rebased_and_pushed() {
    let plane = allowing(&[("branch-push", "auto")]).await;
    plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "main"));
    rebases_to(&plane, &tip('9'), rebased_onto(&tip('9')));
    run(&plane, "repair", in_state(LaunchedState::Running), about_five).await;
    move_to(&plane, &tip('9'));
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    crate::dispatch::set_state(&plane, &crate::dispatch::agent(&plane), done);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(pushed(&plane).last(), Some(&(Some(tip('9')), tip('d'))));
    assert!(
        plane.world.requested_commits.lock().unwrap().contains(&tip('9')),
        "the commit was fetched"
    );
}

#[tokio::test]
async fn change_that_cannot_be_rebased_fails_and_is_not_commented() {
    let plane =
        plane_with_push(&[("branch-push", "always-approve"), ("pull-request-comment", "auto")])
            .await;
    let approval = question(&plane, WriteBackTarget::BranchPush).await;
    answer(&plane, &approval, "bob", Verdict::Approve).await.unwrap();
    move_to(&plane, &tip('9'));
    rebases_to(&plane, &tip('9'), Rebased::Rejected("1 of 4 checks failed".to_owned()));
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("1 of 4 checks failed") && why.contains(&tip('9')), "{why}");
    assert_eq!(sent(&plane), []);
    let states: Vec<_> = run.status.write_backs.iter().map(|one| one.state).collect();
    assert_eq!(states, [WriteBackState::Failed, WriteBackState::Denied]);
}

#[tokio::test]
async fn comment_follows_the_push_and_is_left_out_without_it() {
    let targets = [("create-branch", "always-approve"), ("issue-comment", "auto")];
    for (verdict, comments) in [(Verdict::Approve, 1), (Verdict::Reject, 0)] {
        let plane = allowing(&targets).await;
        run(&plane, "repair", verified_with_report("Done."), |request_json| {
            request_json["sourceRefs"] = json!({ "issue": 4 })
        })
        .await;
        assert_eq!(sent(&plane), [], "no comment before the push");
        let approval = question(&plane, WriteBackTarget::CreateBranch).await;
        answer(&plane, &approval, "bob", verdict).await.unwrap();
        reconcile(&plane).await;
        let writes = sent(&plane);
        let found = writes.iter().filter(|one| matches!(one, WriteBack::Comment { .. })).count();
        assert_eq!(found, comments, "{writes:?}");
    }
    // If the policy never allows the push, the comment does not wait for it.
    for targets in [&targets[1..], &[("create-branch", "denied"), ("issue-comment", "auto")][..]] {
        let plane = allowing(targets).await;
        run(&plane, "repair", verified_with_report("Done."), |request_json| {
            request_json["sourceRefs"] = json!({ "issue": 4 })
        })
        .await;
        assert!(matches!(&sent(&plane)[..], [WriteBack::Comment { .. }]), "{:?}", sent(&plane));
    }
}

#[tokio::test]
async fn closed_pull_request_or_protected_branch_needs_no_approval() {
    let closed = PullRequestState { open: false, ..pull(5, "main") };
    for (state, protected, expected) in [
        (pull(5, "main"), false, None),
        (closed, false, Some("the pull request 5 is closed")),
        (pull(5, "main"), true, Some("the branch main is protected")),
    ] {
        let plane = allowing(&[("branch-push", "always-approve")]).await;
        plane.world.forge.pulls.lock().unwrap().insert(5, state);
        if protected {
            plane.world.forge.protected.lock().unwrap().push("main".to_owned());
        }
        run(&plane, "repair", verified_with_report("Done."), about_five).await;
        let run = only_run(&plane).await;
        assert_eq!(pending(&plane).await.len(), usize::from(expected.is_none()));
        if let Some(expected) = expected {
            assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
            let why = run.status.terminal_reason.unwrap_or_default();
            assert!(why.contains(expected), "{why}");
        }
    }
}

#[tokio::test]
async fn new_branch_whose_name_is_protected_needs_no_approval_and_cannot_be_approved() {
    for protected in [false, true] {
        let plane = allowing(&[("create-branch", "always-approve")]).await;
        let protect = || plane.world.forge.protected.lock().unwrap().push("*".to_owned());
        if protected {
            protect();
        }
        run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
        assert_eq!(pending(&plane).await.len(), usize::from(!protected));
        if protected {
            let run = only_run(&plane).await;
            assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
            let why = run.status.terminal_reason.unwrap_or_default();
            assert!(why.contains("is protected"), "{why}");
            continue;
        }
        // The name is protected after the request.
        let approval = question(&plane, WriteBackTarget::CreateBranch).await;
        protect();
        let (code, message) = code(answer(&plane, &approval, "bob", Verdict::Approve).await);
        assert_eq!(code, "ForgeRefuses");
        assert!(message.contains("is protected"), "{message}");
        assert_eq!(sent(&plane), []);
    }
}

#[tokio::test]
async fn approval_is_refused_if_the_pull_request_was_closed_or_protected() {
    for protected in [false, true] {
        let plane = plane_with_push(&[("branch-push", "always-approve")]).await;
        let approval = question(&plane, WriteBackTarget::BranchPush).await;
        match protected {
            true => plane.world.forge.protected.lock().unwrap().push("main".to_owned()),
            false => {
                let closed = PullRequestState { open: false, ..pull(5, "main") };
                plane.world.forge.pulls.lock().unwrap().insert(5, closed);
            }
        }
        let (code, message) = code(answer(&plane, &approval, "bob", Verdict::Approve).await);
        assert_eq!(code, "ForgeRefuses");
        assert!(message.contains("retry the run"), "{message}");
        assert_eq!(pending(&plane).await.len(), 1);
        answer(&plane, &approval, "bob", Verdict::Reject).await.unwrap();
    }
}

#[tokio::test]
async fn approval_of_a_comment_is_refused_if_the_pull_request_moved() {
    let plane = allowing(&[("pull-request-comment", "always-approve")]).await;
    plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "theirs"));
    run(&plane, "diagnose", verified_with_report("Look."), |request_json| {
        request_json["sourceRefs"] = json!({ "pullRequest": 5 });
    })
    .await;
    let approval = question(&plane, WriteBackTarget::PullRequestComment).await;
    let now = PullRequestState { head_sha: tip('b'), ..pull(5, "theirs") };
    plane.world.forge.pulls.lock().unwrap().insert(5, now);
    let (code, message) = code(answer(&plane, &approval, "bob", Verdict::Approve).await);
    assert_eq!(code, "TargetMoved");
    assert!(message.contains("start a new run"), "{message}");
    assert_eq!(plane.engine.rebased_on.lock().unwrap().len(), 0, "nothing to rebase");
}

#[tokio::test]
async fn preview_shows_the_exact_content_and_the_current_target() {
    let plane = plane_with_push(&[("branch-push", "always-approve")]).await;
    let approval = question(&plane, WriteBackTarget::BranchPush).await;
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let preview = plane.api.preview_approval(&target).await.unwrap();
    assert_eq!(preview.digest, approval.spec.artifact_digest);
    assert_eq!(preview.diff.as_deref(), Some("+a line\n"));
    assert_eq!(preview.commits, work().commits, "what the commits say is written with the diff");
    assert_eq!(preview.target_state.as_deref(), Some(SHA));
    assert_eq!(preview.target_now.as_deref(), Some(SHA));
    let content = preview.content.unwrap();
    assert_eq!(content["commit"], json!("f".repeat(40)));
    move_to(&plane, &tip('9'));
    let moved = plane.api.preview_approval(&target).await.unwrap();
    assert_eq!((moved.target_now, moved.target_state), (Some(tip('9')), Some(SHA.to_owned())));
    // A comment is shown completely.
    let plane = allowing(&[("issue-comment", "always-approve")]).await;
    let long = format!("Start.\n{}\nEnd.", "x".repeat(10_000));
    run(&plane, "diagnose", verified_with_report(&long), |request_json| {
        request_json["sourceRefs"] = json!({ "issue": 4 })
    })
    .await;
    let approval = question(&plane, WriteBackTarget::IssueComment).await;
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let preview = plane.api.preview_approval(&target).await.unwrap();
    let body = preview.content.unwrap()["body"].as_str().unwrap().to_owned();
    assert!(body.contains(&"x".repeat(10_000)) && body.contains("End."));
    assert_eq!(preview.target, "acme/app#4");
    answer(&plane, &approval, "bob", Verdict::Approve).await.unwrap();
    reconcile(&plane).await;
    let sent = sent(&plane);
    let [WriteBack::Comment { body: written, .. }] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*written, body);
}

async fn set_token(plane: &Plane, value: &str) {
    let keys = BTreeMap::from([("token".to_owned(), value.as_bytes().to_vec())]);
    plane.store.set_secret("default", "forge", keys, plane.world.now()).await.unwrap();
}

/// Retries and backoff do not help: a person has to change the token, and then the write is made.
#[tokio::test]
async fn write_refused_for_its_token_is_made_when_the_token_changes() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["credentialRef"] = json!({ "name": "forge", "key": "token" });
        }
        if object.kind == Kind::AgentStack {
            let modes = json!({ "create-branch": "auto" });
            object.spec["writeBackPolicy"] =
                json!({ "allowedTargets": ["create-branch"], "modes": modes });
        }
    })
    .await;
    set_token(&plane, "an old token").await;
    let rejected = || ForgeError::Account(AccountProblem::TokenRejected);
    plane.world.forge.faults.lock().unwrap().extend([rejected(), rejected()]);
    run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
    let requests = || plane.world.forge.requests.load(Ordering::Relaxed);
    let record = async || only_run(&plane).await.status.write_backs[0].clone();
    assert_eq!(requests(), 1, "the same token is not used in each pass");
    assert!(record().await.credential_rejected_at.is_some(), "{:?}", record().await);
    assert!(record().await.detail.contains("token"), "{:?}", record().await);
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    // The token may have been fixed on the forge.
    plane.world.clock.fetch_add(2 * 24 * 3_600_000, Ordering::Relaxed);
    reconcile(&plane).await;
    assert_eq!(requests(), 2);
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Running);
    set_token(&plane, "a new token").await;
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!((requests(), record().await.state), (3, WriteBackState::Written));
    assert_eq!(record().await.credential_rejected_at, None);
}
