//! The results of a run: what is stored, what is proposed, and which status its commit gets.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::reason_for_retry;
use bailiwick_fleet::ports::{
    ActionError, CheckState, DecisionRequest, FinishedWork, Fleet as _, FleetStore as _,
    ForgeError, Launched, LaunchedState, PullRequestState, RunVerb, RunVerbRequest, Target,
    Verdict, World as _, Write, WriteBack,
};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentApproval, AgentArtifact, AgentDispatchAttempt, AgentDispatchAttemptStatus,
    AgentReviewArtifact, AgentSession, AgentTriggerExecution, AnyObject, ApprovalPhase,
    ArtifactKind, AttemptReason, CheckReport, ConditionType, ExitState, Kind, Object, Reason,
    ReviewDecision, RunCost, RunPhase, Standing, WriteBackState, WriteBackTarget,
};
use serde_json::{Value, json};

use super::dispatch::{
    Plane, SHA, agent, all, caller, document, in_state, only_run, reconcile, request, set_state,
    start_plane, work,
};

/// A fleet whose stack allows these write targets, each with this mode.
pub(crate) async fn allowing(targets: &[(&str, &str)]) -> Plane {
    let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
    let modes: serde_json::Map<String, Value> =
        targets.iter().map(|(name, mode)| ((*name).to_owned(), json!(mode))).collect();
    start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({ "allowedTargets": names, "modes": modes });
        }
    })
    .await
}

pub(crate) fn verified_with_report(report: &str) -> Launched {
    let work = FinishedWork { report: Some(report.to_owned()), ..work() };
    Launched { work: Some(work), ..in_state(LaunchedState::Verified) }
}

async fn dispatch_run(plane: &Plane, task_kind: &str, change: impl FnOnce(&mut Value)) {
    let mut request_json = serde_json::to_value(request("r")).unwrap();
    request_json["taskKind"] = json!(task_kind);
    change(&mut request_json);
    let request_json = serde_json::from_value(request_json).unwrap();
    plane.api.dispatch(&caller("ada"), "default", request_json).await.unwrap();
}

pub(crate) async fn run(
    plane: &Plane,
    task_kind: &str,
    launched: Launched,
    change: impl FnOnce(&mut Value),
) {
    dispatch_run(plane, task_kind, change).await;
    reconcile(plane).await;
    set_state(plane, &agent(plane), launched);
    reconcile(plane).await;
}

pub(crate) fn sent(plane: &Plane) -> Vec<WriteBack> {
    plane.world.forge.sent.lock().unwrap().clone()
}

fn block(value: &Value) -> String {
    format!("```json\n{value}\n```")
}

pub(crate) fn pull(number: u64, branch: &str) -> PullRequestState {
    PullRequestState {
        number,
        title: String::new(),
        body: String::new(),
        open: true,
        head_branch: branch.to_owned(),
        head_sha: SHA.to_owned(),
        head_repository: Some("acme/app".to_owned()),
        base_branch: "main".to_owned(),
        files: Vec::new(),
    }
}

pub(crate) async fn answer(
    plane: &Plane,
    approval: &Object<AgentApproval>,
    by: &str,
    decision: Verdict,
) -> Result<(), ActionError> {
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let request = DecisionRequest {
        decision,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller(by), &target, request).await.map(drop)
}

pub(crate) async fn question(plane: &Plane, target: WriteBackTarget) -> Object<AgentApproval> {
    use bailiwick_resources::ActionType;
    let all = all::<AgentApproval>(plane).await;
    all.into_iter().find(|one| one.spec.action.kind == ActionType::WriteBack(target)).unwrap()
}

async fn artifact(plane: &Plane, kind: ArtifactKind) -> (Object<AgentArtifact>, String) {
    let all = all::<AgentArtifact>(plane).await;
    let found = all.into_iter().find(|one| one.spec.kind == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind:?}"));
    let bytes = plane.store.blob(&found.spec.digest).await.unwrap().unwrap();
    assert_eq!(Sha256Hex::of(&bytes).as_str(), found.spec.digest);
    (found, String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn report_of_an_agent_is_stored_without_secrets_and_written() {
    let plane = allowing(&[("issue-comment", "auto")]).await;
    let keys = BTreeMap::from([("key".to_owned(), b"quite-own-value".to_vec())]);
    plane.store.set_secret("default", "own", keys, plane.world.now()).await.unwrap();
    let report_text = "The parser is off by one.\nIt read quite-own-value and API_KEY=hunter22.";
    run(&plane, "diagnose", verified_with_report(report_text), |request_json| {
        request_json["sourceRefs"] = json!({ "issue": 4 })
    })
    .await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    let (stored, text) = artifact(&plane, ArtifactKind::Diagnosis).await;
    assert!(run.status.artifacts.contains(&stored.name().to_owned()), "{:?}", run.status);
    assert!(text.contains("off by one") && text.contains("[secret]"), "{text}");
    let written = sent(&plane);
    let [WriteBack::Comment { body, .. }] = &written[..] else { panic!("{written:?}") };
    assert!(body.contains("off by one"), "{body}");
    for secret in ["quite-own-value", "hunter22"] {
        assert!(!body.contains(secret) && !text.contains(secret), "{body}\n{text}");
    }
}

#[tokio::test]
async fn review_is_stored_and_written_as_a_review() {
    let plane =
        allowing(&[("pull-request-review", "auto"), ("pull-request-comment", "auto")]).await;
    let review = json!({ "review": {
        "decision": "changes-requested", "body": "Not yet.",
        "comments": [{ "path": "src/a.rs", "line": 3, "body": "Off by one." }],
    }});
    let nothing = FinishedWork { files: Vec::new(), patch: Vec::new(), ..work() };
    let mut ended = verified_with_report(&format!("I looked at it.\n{}", block(&review)));
    let report = ended.work.as_ref().unwrap().report.clone();
    ended.work = Some(FinishedWork { report, ..nothing });
    run(&plane, "review", ended, |request_json| {
        request_json["sourceRefs"] = json!({ "pullRequest": 5 })
    })
    .await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    let stored = all::<AgentReviewArtifact>(&plane).await.remove(0);
    assert_eq!(stored.spec.decision, ReviewDecision::ChangesRequested);
    assert_eq!(stored.spec.target_ref, format!("acme/app#5@{SHA}"));
    assert_eq!(stored.spec.comments[0].line, 3);
    assert_eq!(artifact(&plane, ArtifactKind::Review).await.1, "I looked at it.");
    let written = sent(&plane);
    let [WriteBack::Review(review)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((review.number, review.sha.as_str()), (5, SHA));
    assert_eq!((review.body.as_str(), review.comments.len()), ("Not yet.", 1));
}

#[tokio::test]
async fn review_run_without_a_valid_review_fails() {
    let wrong = block(&json!({ "review": { "decision": "approved", "comments": "none" } }));
    for report in ["Fine.", wrong.as_str()] {
        let plane = allowing(&[("pull-request-review", "auto")]).await;
        run(&plane, "review", verified_with_report(report), |request_json| {
            request_json["sourceRefs"] = json!({ "pullRequest": 5 });
        })
        .await;
        let run = only_run(&plane).await;
        let why = run.status.terminal_reason.clone().unwrap_or_default();
        assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
        assert!(why.starts_with("ReviewArtifactInvalid"), "{why}");
        assert_eq!(all::<AgentReviewArtifact>(&plane).await.len(), 0);
        assert_eq!(sent(&plane), []);
        let invalid = (Standing::False, Reason::ReviewArtifactInvalid);
        assert_eq!(indexed(&plane).await, invalid, "{:?}", run.status);
    }
}

/// The condition `ArtifactsIndexed` of the run.
async fn indexed(plane: &Plane) -> (Standing, Reason) {
    let conditions = only_run(plane).await.status.conditions;
    let one = conditions.iter().find(|one| one.kind == ConditionType::ArtifactsIndexed).unwrap();
    (one.status, one.reason)
}

/// While an approval is pending, a stored review counts as recorded; a deleted one does not.
#[tokio::test]
async fn stored_review_is_found_among_the_review_artifacts() {
    let plane = allowing(&[("pull-request-review", "always-approve")]).await;
    let review = json!({ "decision": "approved", "body": "Fine.", "comments": [] });
    run(
        &plane,
        "review",
        verified_with_report(&block(&json!({ "review": review }))),
        |request_json| {
            request_json["sourceRefs"] = json!({ "pullRequest": 5 });
        },
    )
    .await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    let stored = all::<AgentReviewArtifact>(&plane).await.remove(0);
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    assert_eq!(indexed(&plane).await, (Standing::True, Reason::ArtifactsRecorded));
    let (kind, namespace) = (Kind::AgentReviewArtifact, "default".to_owned());
    let deletion = Write::Delete { kind, namespace, name: stored.name().to_owned(), version: 0 };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    assert_eq!(indexed(&plane).await, (Standing::False, Reason::UploadFailed));
}

/// Untrusted text can cause an approval, so it is published only after a person approves it.
#[tokio::test]
async fn review_of_untrusted_work_never_approves_by_itself() {
    let review = block(&json!({ "review": { "decision": "approved", "body": "@ada: fine" } }));
    for (sha, expected) in
        [(None, ReviewDecision::Approved), (Some("a".repeat(40)), ReviewDecision::CommentOnly)]
    {
        let plane = allowing(&[("pull-request-review", "auto")]).await;
        let untrusted = sha.is_some();
        run(&plane, "review", verified_with_report(&review), |request_json| {
            request_json["sourceRefs"] = json!({ "pullRequest": 5 });
            request_json["sha"] = json!(sha);
        })
        .await;
        let written = sent(&plane);
        let [WriteBack::Review(review)] = &written[..] else { panic!("{written:?}") };
        assert_eq!(review.decision, expected);
        assert_eq!(review.body.contains("@ada"), !untrusted, "{}", review.body);
    }
}

#[tokio::test]
async fn release_notes_are_proposed_only_for_the_tag_of_the_run() {
    let notes = block(&json!({ "release": { "title": "One", "notes": "It is faster." } }));
    for (reference, expected) in [("refs/tags/v1", 1), ("refs/heads/main", 0)] {
        let plane = allowing(&[("release-note", "auto")]).await;
        run(
            &plane,
            "release-notes",
            verified_with_report(&format!("Ready.\n{notes}")),
            |request_json| {
                request_json["ref"] = json!(reference);
            },
        )
        .await;
        assert_eq!(artifact(&plane, ArtifactKind::ReleaseReport).await.1, "Ready.");
        let written = sent(&plane);
        assert_eq!(written.len(), expected, "{written:?}");
        for one in written {
            let WriteBack::ReleaseNote { tag, title, body } = one else { panic!("{one:?}") };
            assert_eq!(
                (tag.as_str(), title.as_str(), body.as_str()),
                ("v1", "One", "It is faster.")
            );
        }
    }
}

/// Stores a delivery, as if it had arrived before.
async fn store_delivery(plane: &Plane, payload: &Value) -> String {
    let bytes = payload.to_string().into_bytes();
    let digest = Sha256Hex::of(&bytes).to_string();
    let spec = json!({
        "forge": "gitea", "deliveryId": "1", "event": "workflow_job", "repository": "app",
        "payloadDigest": digest, "bytes": bytes.len(), "receivedAt": "2026-11-01T00:00:00Z",
    });
    let mut delivery = document(Kind::WebhookDelivery, "whd-1", spec);
    delivery.status = json!({ "evaluated": true });
    let writes = vec![Write::Blob { digest, bytes }, Write::Create(delivery)];
    plane.store.commit(writes, plane.world.now()).await.unwrap();
    "whd-1".to_owned()
}

#[tokio::test]
async fn rerun_is_proposed_only_for_the_job_of_the_event() {
    let request_json = block(&json!({ "rerun": { "reason": "the network was down" } }));
    let other = block(&json!({ "rerun": { "reason": "x", "run": "99" } }));
    for (answer, expected) in [(request_json, 1), (other, 0)] {
        let plane = allowing(&[("check-rerun", "auto")]).await;
        let payload = json!({ "workflow_job": { "id": 7, "run_id": 3, "run_attempt": 2 } });
        let delivery = store_delivery(&plane, &payload).await;
        run(&plane, "diagnose", verified_with_report(&answer), |request_json| {
            request_json["sourceRefs"] = json!({ "webhookDelivery": delivery });
        })
        .await;
        let rerun = WriteBack::Rerun { run: "7".to_owned(), whole_workflow: false, attempt: 2 };
        assert_eq!(sent(&plane), vec![rerun; expected], "{answer}");
        if expected > 0 {
            let (_, text) = artifact(&plane, ArtifactKind::RerunRequest).await;
            assert!(text.contains("the network was down"), "{text}");
        }
    }
}

#[tokio::test]
async fn deployment_approval_is_proposed_and_a_refusal_is_not() {
    for (approve, expected) in [(true, 1), (false, 0)] {
        let plane = allowing(&[("deployment-approval", "auto")]).await;
        let payload = json!({ "workflow_run": { "id": 3 }, "environment": "production" });
        let delivery = store_delivery(&plane, &payload).await;
        let answer =
            block(&json!({ "deployment": { "approve": approve, "comment": "All green." } }));
        run(&plane, "gatekeep", verified_with_report(&answer), |request_json| {
            request_json["sourceRefs"] = json!({ "webhookDelivery": delivery });
        })
        .await;
        let deployment_approval = WriteBack::DeploymentApproval {
            run: "3".to_owned(),
            environment: "production".to_owned(),
            comment: "All green.".to_owned(),
        };
        assert_eq!(sent(&plane), vec![deployment_approval; expected]);
    }
}

#[tokio::test]
async fn only_the_branch_of_the_pull_request_itself_is_pushed() {
    let known = [
        (pull(5, "main"), true),
        (pull(5, "another"), false),
        (
            PullRequestState { head_repository: Some("eve/app".to_owned()), ..pull(5, "main") },
            false,
        ),
        (PullRequestState { head_repository: None, ..pull(5, "main") }, false),
        // The forge has no such pull request.
        (pull(6, "main"), false),
    ];
    for (state, pushed_to_branch) in known {
        let plane = allowing(&[("branch-push", "auto"), ("create-branch", "auto")]).await;
        plane.world.forge.pulls.lock().unwrap().insert(state.number, state.clone());
        run(&plane, "repair", verified_with_report("Done."), |request_json| {
            request_json["sourceRefs"] = json!({ "pullRequest": 5 });
            request_json["ref"] = json!("refs/heads/main");
        })
        .await;
        let written = sent(&plane);
        let [WriteBack::Push { branch, from, .. }] = &written[..] else { panic!("{written:?}") };
        assert_eq!(branch == "main", pushed_to_branch, "{state:?}: {written:?}");
        assert_eq!(from.is_some(), pushed_to_branch, "{state:?}: {written:?}");
        assert!(pushed_to_branch || branch.starts_with("agent/"), "{written:?}");
    }
}

#[tokio::test]
async fn pull_request_is_not_opened_if_its_push_is_rejected() {
    let targets = [
        ("create-branch", "always-approve"),
        ("open-pull-request", "auto"),
        ("check-status", "auto"),
    ];
    for (decision, approved) in [(Verdict::Reject, false), (Verdict::Approve, true)] {
        let plane = allowing(&targets).await;
        run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
        let approval = question(&plane, WriteBackTarget::CreateBranch).await;
        answer(&plane, &approval, "bob", decision).await.unwrap();
        reconcile(&plane).await;
        let run = only_run(&plane).await;
        let expected = if approved { RunPhase::Succeeded } else { RunPhase::Failed };
        assert_eq!(run.status.phase, expected, "{:?}", run.status);
        let states: Vec<WriteBackState> =
            run.status.write_backs.iter().map(|one| one.state).collect();
        let state = if approved { WriteBackState::Written } else { WriteBackState::Denied };
        assert_eq!(states, [state, state], "{:?}", run.status.write_backs);
        let opened =
            sent(&plane).iter().any(|one| matches!(one, WriteBack::OpenPullRequest { .. }));
        assert_eq!(opened, approved);
        assert_eq!(reported_checks(&plane).last().unwrap().0 == CheckState::Success, approved);
    }
}

#[tokio::test]
async fn pull_request_without_its_branch_is_not_opened() {
    let plane = allowing(&[("open-pull-request", "auto")]).await;
    run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(sent(&plane), []);
    // The proposal is stored, so that a person can push the branch.
    let (_, text) = artifact(&plane, ArtifactKind::BranchProposal).await;
    assert!(text.contains("agent/") && text.contains("open-pull-request"), "{text}");
}

#[tokio::test]
async fn person_who_started_a_run_cannot_approve_its_writes() {
    for is_allowed in [false, true] {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["writeBackPolicy"]["dispatcherMayApprove"] = json!(is_allowed);
            }
        })
        .await;
        run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
        let approval = question(&plane, WriteBackTarget::CreateBranch).await;
        let own = answer(&plane, &approval, "ada", Verdict::Approve).await;
        assert_eq!(own.is_ok(), is_allowed, "{own:?}");
        if !is_allowed {
            answer(&plane, &approval, "bob", Verdict::Approve).await.unwrap();
        }
        reconcile(&plane).await;
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    }
}

/// The same rule applies to the person who retried the run.
#[tokio::test]
async fn person_who_retried_a_run_cannot_approve_its_writes() {
    for is_allowed in [false, true] {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["writeBackPolicy"]["dispatcherMayApprove"] = json!(is_allowed);
            }
        })
        .await;
        run(&plane, "repair", in_state(LaunchedState::Failed), |_| {}).await;
        let name = only_run(&plane).await.name().to_owned();
        let target = Target { namespace: "default".to_owned(), name };
        let retry = RunVerbRequest::default();
        plane.api.act_on_run(&caller("bob"), &target, RunVerb::Retry, retry).await.unwrap();
        reconcile(&plane).await;
        set_state(&plane, &agent(&plane), verified_with_report("Done."));
        reconcile(&plane).await;
        let approval = question(&plane, WriteBackTarget::CreateBranch).await;
        let (dispatched_by, retried_by) =
            (&approval.spec.dispatched_by, &approval.spec.attempt_asked_by);
        let person = |name: &str| (!is_allowed).then(|| name.to_owned());
        assert_eq!((dispatched_by, retried_by), (&person("ada"), &person("bob")));
        for own in ["ada", "bob"] {
            if !is_allowed {
                let refused = answer(&plane, &approval, own, Verdict::Approve).await;
                assert!(refused.is_err(), "{own}");
            }
        }
        let by = if is_allowed { "bob" } else { "cyd" };
        answer(&plane, &approval, by, Verdict::Approve).await.unwrap();
    }
}

/// The approval is valid for the pull request as it was.
#[tokio::test]
async fn comment_is_not_written_to_a_pull_request_that_has_moved() {
    for moved in [false, true] {
        let plane = allowing(&[("pull-request-comment", "always-approve")]).await;
        plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "theirs"));
        run(&plane, "diagnose", verified_with_report("Look at it."), |request_json| {
            request_json["sourceRefs"] = json!({ "pullRequest": 5 });
        })
        .await;
        let approval = question(&plane, WriteBackTarget::PullRequestComment).await;
        assert_eq!(approval.spec.target_state.as_deref(), Some(SHA));
        answer(&plane, &approval, "bob", Verdict::Approve).await.unwrap();
        if moved {
            let now = PullRequestState { head_sha: "b".repeat(40), ..pull(5, "theirs") };
            plane.world.forge.pulls.lock().unwrap().insert(5, now);
        }
        reconcile(&plane).await;
        assert_eq!(sent(&plane).len(), usize::from(!moved), "{:?}", sent(&plane));
    }
}

/// State and description of every reported status, in order; all statuses have the same name.
fn reported_checks(plane: &Plane) -> Vec<(CheckState, String)> {
    let mut all = Vec::new();
    for one in sent(plane) {
        if let WriteBack::CheckStatus { sha, context, state, description, .. } = one {
            assert_eq!((sha.as_str(), context.as_str()), (SHA, "bailiwick/fixer"));
            all.push((state, description));
        }
    }
    all
}

fn states(plane: &Plane) -> Vec<(CheckState, String)> {
    let first = |words: String| words.split(':').next().unwrap_or_default().to_owned();
    reported_checks(plane).into_iter().map(|(state, words)| (state, first(words))).collect()
}

#[tokio::test]
async fn commit_status_follows_the_run() {
    let plane = allowing(&[("check-status", "auto"), ("create-branch", "always-approve")]).await;
    let status = |state, words: &str| (state, words.to_owned());
    let waiting = status(CheckState::Pending, "waits for its turn");
    let working = status(CheckState::Pending, "is running");
    let asking = status(CheckState::Pending, "waits for a person");
    let done = status(CheckState::Success, "is done");
    let cancelled = status(CheckState::Error, "was cancelled");
    let failed = status(CheckState::Failure, "failed");
    // The pool is paused: the run waits, and this is reported once.
    let paused = |paused: bool| {
        let mut pool = super::dispatch::fleet(|_| {})
            .into_iter()
            .find(|one| one.metadata.name == "inside")
            .unwrap();
        pool.spec["paused"] = json!(paused);
        pool
    };
    dispatch_run(&plane, "repair", |_| {}).await;
    super::dispatch::declare(&plane, &[paused(true)]).await;
    reconcile(&plane).await;
    assert_eq!(states(&plane), std::slice::from_ref(&waiting));
    super::dispatch::declare(&plane, &[paused(false)]).await;
    reconcile(&plane).await;
    assert_eq!(states(&plane), [waiting.clone(), working.clone()]);
    set_state(&plane, &agent(&plane), verified_with_report("Done."));
    reconcile(&plane).await;
    let approval = question(&plane, WriteBackTarget::CreateBranch).await;
    answer(&plane, &approval, "bob", Verdict::Approve).await.unwrap();
    reconcile(&plane).await;
    let mut expected = vec![waiting, working.clone(), asking, done];
    assert_eq!(states(&plane), expected);
    // Another attempt that is cancelled, and another that fails.
    let target =
        Target { namespace: "default".to_owned(), name: only_run(&plane).await.name().to_owned() };
    let act = async |verb| {
        plane
            .api
            .act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default())
            .await
            .unwrap();
        reconcile(&plane).await;
    };
    act(RunVerb::Retry).await;
    act(RunVerb::Cancel).await;
    expected.extend([working.clone(), cancelled]);
    assert_eq!(states(&plane), expected);
    act(RunVerb::Retry).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    expected.extend([working, failed]);
    assert_eq!(states(&plane), expected);
}

#[tokio::test]
async fn commit_gets_no_status_without_a_policy_that_allows_it() {
    let plane = allowing(&[("create-branch", "auto")]).await;
    run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(states(&plane), []);
    assert_eq!(sent(&plane).len(), 1, "the push is written");
}

/// Approvals, failures and delays of the last attempt do not count for the next one.
#[tokio::test]
async fn retry_is_reported_like_a_first_attempt() {
    let plane = allowing(&[("check-status", "auto")]).await;
    run(&plane, "repair", in_state(LaunchedState::Failed), |_| {}).await;
    let reported = states(&plane);
    assert_eq!(reported.last().unwrap().0, CheckState::Failure);
    let mut run = only_run(&plane).await;
    let far = plane.world.now().plus_millis(86_400_000);
    run.status.check_report = Some(CheckReport {
        told: RunPhase::Failed,
        approval: Some("aap-gone".to_owned()),
        detail: "given up".to_owned(),
        misses: 15,
        next_try_at: Some(far),
    });
    let write = Write::Status(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(states(&plane), reported, "no new status");
    let target = Target { namespace: "default".to_owned(), name: run.name().to_owned() };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    assert_eq!(only_run(&plane).await.status.check_report, Some(CheckReport::default()));
    reconcile(&plane).await;
    assert_eq!(states(&plane).last().unwrap(), &(CheckState::Pending, "is running".to_owned()));
    assert!(states(&plane).len() > reported.len());
}

/// An approval is needed for the final status only, and the run does not wait for it.
#[tokio::test]
async fn approval_of_a_status_is_requested_only_at_the_end() {
    for (decision, expected) in [(Verdict::Approve, 1), (Verdict::Reject, 0)] {
        let plane = allowing(&[("check-status", "always-approve")]).await;
        dispatch_run(&plane, "repair", |_| {}).await;
        reconcile(&plane).await;
        assert_eq!(all::<AgentApproval>(&plane).await.len(), 0);
        set_state(&plane, &agent(&plane), verified_with_report("Done."));
        reconcile(&plane).await;
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
        assert_eq!(states(&plane), []);
        let approval = question(&plane, WriteBackTarget::CheckStatus).await;
        assert_eq!(approval.status.phase, ApprovalPhase::Pending);
        answer(&plane, &approval, "bob", decision).await.unwrap();
        reconcile(&plane).await;
        assert_eq!(states(&plane).len(), expected);
        assert_eq!(all::<AgentApproval>(&plane).await.len(), 1, "only one approval is requested");
    }
}

/// The response of the forge is lost, or the forge is unavailable: the run still ends, and its final state is
/// reported.
#[tokio::test]
async fn unavailable_forge_delays_no_run_and_gets_the_final_status() {
    let plane = allowing(&[("check-status", "auto")]).await;
    dispatch_run(&plane, "repair", |_| {}).await;
    let unavailable = || ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.faults.lock().unwrap().extend([unavailable(), unavailable(), unavailable()]);
    let mut errors = 0;
    for round in 0..40 {
        if round == 5 {
            set_state(&plane, &agent(&plane), verified_with_report("Done."));
        }
        errors += plane.advance().await.errors.len();
        plane.world.clock.fetch_add(10_000, Ordering::Relaxed);
    }
    assert_eq!(errors, 3, "each failed request is an error");
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded);
    assert_eq!(run.status.check_report.unwrap().told, RunPhase::Succeeded);
    assert_eq!(states(&plane).last().unwrap().0, CheckState::Success);
    let requests = plane.world.forge.requests.load(Ordering::Relaxed);
    assert!(requests <= 6, "requests are not repeated forever: {requests}");
}

/// A forge that refuses a status does not fail the run.
#[tokio::test]
async fn refused_status_is_recorded_and_not_repeated() {
    let plane = allowing(&[("check-status", "auto")]).await;
    let refusal = ForgeError::Unsupported("keep statuses".to_owned());
    plane.world.forge.faults.lock().unwrap().extend([refusal.clone(), refusal.clone(), refusal]);
    run(&plane, "repair", verified_with_report("Done."), |_| {}).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded);
    let report = run.status.check_report.unwrap();
    assert_eq!(report.told, RunPhase::Succeeded);
    assert!(report.detail.contains("keep statuses"), "{report:?}");
}

#[tokio::test]
async fn file_name_in_a_comment_cannot_add_markup() {
    let plane = allowing(&[("issue-comment", "auto")]).await;
    let mut ended = verified_with_report("Done.");
    let files = vec!["a`\n\n@everyone # x".to_owned()];
    let finished = ended.work.take().unwrap();
    ended.work = Some(FinishedWork { files, ..finished });
    run(&plane, "repair", ended, |request_json| request_json["sourceRefs"] = json!({ "issue": 4 }))
        .await;
    let written = sent(&plane);
    let [WriteBack::Comment { body, .. }] = &written[..] else { panic!("{written:?}") };
    assert!(body.contains("everyone"), "{body}");
    assert!(!body.contains("\n@everyone"), "{body}");
    assert!(body.lines().any(|line| line.starts_with("- ``a`")), "{body}");
}

/// The phase, the reason and the number of pushes of work with this change.
async fn phase_after(change: impl FnOnce(&mut FinishedWork)) -> (RunPhase, String, usize) {
    let plane = allowing(&[("create-branch", "auto"), ("issue-comment", "auto")]).await;
    let keys = BTreeMap::from([
        ("password".to_owned(), b"Quite-0wn-value".to_vec()),
        ("user".to_owned(), b"admin".to_vec()),
    ]);
    plane.store.set_secret("default", "database", keys, plane.world.now()).await.unwrap();
    let mut ended = verified_with_report("Done.");
    change(ended.work.as_mut().unwrap());
    run(&plane, "repair", ended, |request_json| request_json["sourceRefs"] = json!({ "issue": 4 }))
        .await;
    let run = only_run(&plane).await;
    let sent = sent(&plane);
    let pushes = sent.iter().filter(|one| matches!(one, WriteBack::Push { .. })).count();
    let contains_secret = sent.iter().any(|one| format!("{one:?}").contains("Quite-0wn-value"));
    assert!(!contains_secret, "{sent:?}");
    (run.status.phase, run.status.terminal_reason.unwrap_or_default(), pushes)
}

/// A change to the finished work.
type Change = Box<dyn FnOnce(&mut FinishedWork)>;

#[tokio::test]
async fn secret_value_in_a_patch_name_or_history_is_not_pushed() {
    let patch = |line: &str| format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n{line}\n").into_bytes();
    let token = "+let key = \"ghp_0123456789abcdefghij0123\";";
    let refused: [(&str, Change); 5] = [
        ("a line", Box::new(move |work| work.patch = patch("+db = Quite-0wn-value"))),
        ("a name", Box::new(|work| work.files.push("src/Quite-0wn-value.rs".to_owned()))),
        (
            "a commit before",
            Box::new(|work| work.history = Some(b"    says Quite-0wn-value".to_vec())),
        ),
        ("a token", Box::new(move |work| work.history = Some(token.as_bytes().to_vec()))),
        ("nobody knows", Box::new(|work| work.history = None)),
    ];
    for (what, change) in refused {
        let (phase, why, pushes) = phase_after(change).await;
        assert_eq!((phase, pushes), (RunPhase::Failed, 0), "{what}: {why}");
        assert!(why.starts_with("WriteBackDenied"), "{what}: {why}");
    }
    // A removed line may contain a secret, and plain words are not secrets.
    let lines = "-db = Quite-0wn-value\n+user = admin";
    let (phase, why, pushes) = phase_after(|work| work.patch = patch(lines)).await;
    assert_eq!((phase, pushes), (RunPhase::Succeeded, 1), "{why}");
}

/// A retry adds to the cost, and a continued conversation is not counted twice.
#[tokio::test]
async fn run_costs_the_sum_of_its_attempts() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["budget"] = json!({ "tokens": 100, "microUsd": 2_000_000 });
        }
    })
    .await;
    dispatch_run(&plane, "repair", |_| {}).await;
    reconcile(&plane).await;
    let spent = |tokens: u64, attempts: u64, state| {
        let cost = RunCost { tokens, micro_usd: tokens * 10_000, ..RunCost::default() };
        Launched { cost, attempts, ..in_state(state) }
    };
    let target =
        Target { namespace: "default".to_owned(), name: only_run(&plane).await.name().to_owned() };
    let act = async |verb, message: &str| {
        let request = RunVerbRequest { message: message.to_owned(), ..RunVerbRequest::default() };
        plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
        reconcile(&plane).await;
    };
    set_state(&plane, &agent(&plane), spent(30, 1, LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.cost.tokens, 30);
    act(RunVerb::Retry, "").await;
    // The retry gets the rest of the budget.
    let task = plane.engine.launched.lock().unwrap().last().unwrap().task.clone();
    let budget = task.parse::<toml::Table>().unwrap()["budget"].clone();
    assert_eq!(budget["tokens"].as_integer(), Some(70), "{task}");
    assert!((budget["usd"].as_float().unwrap() - 1.7).abs() < 1e-9, "{task}");
    set_state(&plane, &agent(&plane), spent(50, 1, LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.cost.tokens, 80);
    // The conversation continues: 50 of its 60 were spent before.
    act(RunVerb::Continue, "More.").await;
    set_state(&plane, &agent(&plane), spent(60, 2, LaunchedState::Failed));
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.cost.tokens, 90);
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let each: Vec<u64> = attempts.iter().map(|one| one.status.cost.tokens).collect();
    assert_eq!(each, [30, 50, 10]);
    // After another 10 nothing is left: the run is not started.
    act(RunVerb::Retry, "").await;
    set_state(&plane, &agent(&plane), spent(10, 1, LaunchedState::Failed));
    reconcile(&plane).await;
    let launched = plane.engine.launched.lock().unwrap().len();
    act(RunVerb::Retry, "").await;
    let run = only_run(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), launched);
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("BudgetExhausted"), "{why}");
}

#[tokio::test]
async fn session_shows_its_adapter_and_whether_it_is_live() {
    let plane = start_plane(|_| {}).await;
    dispatch_run(&plane, "repair", |_| {}).await;
    reconcile(&plane).await;
    let session = async || all::<AgentSession>(&plane).await.remove(0);
    let running_session = session().await;
    assert_eq!(running_session.spec.adapter, "claude-code");
    assert!(
        running_session.status.live && !running_session.status.resumable,
        "{:?}",
        running_session.status
    );
    assert_eq!(running_session.status.event_cursor, format!("{:020}", 3));
    let more = Launched { cursor: 9, ..in_state(LaunchedState::Running) };
    set_state(&plane, &agent(&plane), more);
    reconcile(&plane).await;
    let later = session().await;
    assert_eq!(later.status.event_cursor, format!("{:020}", 9));
    assert!(later.status.last_activity_at > running_session.status.last_activity_at);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let ended = session().await;
    assert!(!ended.status.live && ended.status.resumable, "{:?}", ended.status);
    let all_probed = plane.world.all_probed.load(Ordering::Relaxed);
    assert_eq!(all_probed, 0, "only the program of the stack is probed");
}

#[tokio::test]
async fn approval_expires_as_its_rule_says_and_with_its_run() {
    let plane = start_plane(|_| {}).await;
    dispatch_run(&plane, "repair", |_| {}).await;
    let mut run = only_run(&plane).await;
    run.spec.approval_policy.expires_after = Some("2h".parse().unwrap());
    let longer = Write::Replace(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![longer], plane.world.now()).await.unwrap();
    reconcile(&plane).await;
    let questions = vec![("q1".to_owned(), "may it push?".to_owned())];
    let waiting = Launched { questions, ..in_state(LaunchedState::WaitingForApproval) };
    set_state(&plane, &agent(&plane), waiting);
    reconcile(&plane).await;
    plane.world.clock.fetch_add(90 * 60_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let pending_approval = async || all::<AgentApproval>(&plane).await.remove(0);
    assert_eq!(pending_approval().await.status.phase, ApprovalPhase::Pending);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    assert_eq!(pending_approval().await.status.phase, ApprovalPhase::Expired);
}

#[tokio::test]
async fn ended_attempt_stores_how_its_agent_ended() {
    for (state, expected) in [
        (LaunchedState::Rejected, ExitState::Rejected),
        (LaunchedState::BudgetExhausted, ExitState::BudgetExhausted),
    ] {
        let plane = start_plane(|_| {}).await;
        dispatch_run(&plane, "ends", |_| {}).await;
        reconcile(&plane).await;
        set_state(&plane, &agent(&plane), in_state(LaunchedState::Running));
        reconcile(&plane).await;
        let attempt = async || all::<AgentDispatchAttempt>(&plane).await.remove(0);
        assert_eq!(attempt().await.status.exit_state, None);
        set_state(&plane, &agent(&plane), in_state(state));
        reconcile(&plane).await;
        assert_eq!(attempt().await.status.exit_state, Some(expected));
    }
}

#[tokio::test]
async fn repair_attempt_gets_the_failed_checks_as_context() {
    let ended = |state, reason: &str| AgentDispatchAttemptStatus {
        exit_state: Some(state),
        exit_reason: Some(reason.to_owned()),
        ..AgentDispatchAttemptStatus::default()
    };
    let failed = ended(ExitState::Failed, "failed: it broke");
    assert_eq!(reason_for_retry(&failed).0, AttemptReason::Retry);
    let (reason, message) =
        reason_for_retry(&ended(ExitState::Rejected, "rejected: scope does not hold"));
    assert_eq!((reason, message.as_deref()), (AttemptReason::Repair, Some("scope does not hold")));
    let plane = start_plane(|_| {}).await;
    dispatch_run(&plane, "repair", |_| {}).await;
    let mut attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    attempt.spec.attempt_reason = reason;
    attempt.spec.message = message;
    let repair = Write::Replace(AnyObject::of(&attempt).unwrap());
    plane.store.commit(vec![repair], plane.world.now()).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert!(launch.context.contains("\n    scope does not hold"), "{}", launch.context);
    assert!(launch.resume.is_none());
}

#[tokio::test]
async fn attempt_shows_its_limits_and_hosts() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentToolProfile {
            object.spec["approvalPolicyByTool"] = json!({ "filesystem": "prompt" });
            object.spec["deniedCommands"] = json!(["curl"]);
            object.spec["networkPolicy"] =
                json!({ "mode": "allowlist", "allowHosts": ["docs.example.org"] });
        }
        if object.kind == Kind::AgentStack {
            object.spec["approvalMode"] = json!("deny");
        }
    })
    .await;
    dispatch_run(&plane, "repair", |_| {}).await;
    let attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    let limits = json!(attempt.status.limits).to_string();
    assert!(limits.contains("curl"), "{limits}");
    assert_eq!(attempt.status.hosts, ["docs.example.org:443"]);
    let notes = &attempt.status.limit_notes;
    assert!(notes.iter().any(|note| note.contains("Filesystem")), "{notes:?}");
}

#[tokio::test]
async fn execution_records_the_approval_decision() {
    let plane = start_plane(|_| {}).await;
    let rule = document(
        Kind::AgentTriggerRule,
        "nightly",
        json!({
            "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
            "taskKind": "tend", "promptTemplate": "Tend it.",
            "approvalPolicy": { "requireFor": ["write-back"] },
            "schedule": { "cron": "*/5 * * * *", "repository": "acme/app" },
        }),
    );
    super::dispatch::declare(&plane, &[rule]).await;
    reconcile(&plane).await;
    plane.world.clock.fetch_add(5 * 60_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let execution = all::<AgentTriggerExecution>(&plane).await.remove(0);
    // The rule requires approvals for writes only, so none was needed before the start.
    let decision = execution.spec.approval_decision.as_deref();
    assert_eq!(decision, Some("no approval was needed"), "{:?}", execution.spec);
}

#[tokio::test]
async fn run_whose_repository_is_deleted_still_ends() {
    let plane = allowing(&[("check-status", "auto")]).await;
    dispatch_run(&plane, "repair", |_| {}).await;
    reconcile(&plane).await;
    let (kind, namespace, name) = (Kind::Repository, "default".to_owned(), "app".to_owned());
    let deletion = Write::Delete { kind, namespace, name, version: 0 };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    set_state(&plane, &agent(&plane), verified_with_report("Done."));
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(artifact(&plane, ArtifactKind::Diagnosis).await.1, "Done.");
}
