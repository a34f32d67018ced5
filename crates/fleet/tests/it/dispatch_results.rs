//! What a run has made, what of it is proposed, and what its commit says of it.

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
    AgentApproval, AgentArtifact, AgentDispatchAttempt, AgentReviewArtifact, AgentSession,
    AgentTriggerExecution, AnyObject, ApprovalPhase, ArtifactKind, AttemptReason, CheckReport,
    ConditionType, Kind, Object, Reason, ReviewDecision, RunCost, RunPhase, Standing,
    WriteBackState, WriteBackTarget,
};
use serde_json::{Value, json};

use super::dispatch::{
    Plane, SHA, agent, all, caller, document, only_run, request, set, stand, standing, turn, work,
};

/// A fleet whose stack may write this back, each with this mode.
pub(crate) async fn allowing(targets: &[(&str, &str)]) -> Plane {
    let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
    let modes: serde_json::Map<String, Value> =
        targets.iter().map(|(name, mode)| ((*name).to_owned(), json!(mode))).collect();
    stand(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({ "allowedTargets": names, "modes": modes });
        }
    })
    .await
}

pub(crate) fn said(report: &str) -> Launched {
    let work = FinishedWork { report: Some(report.to_owned()), ..work() };
    Launched { work: Some(work), ..standing(LaunchedState::Verified) }
}

async fn begin(plane: &Plane, task_kind: &str, change: impl FnOnce(&mut Value)) {
    let mut wish = serde_json::to_value(request("r")).unwrap();
    wish["taskKind"] = json!(task_kind);
    change(&mut wish);
    let wish = serde_json::from_value(wish).unwrap();
    plane.api.dispatch(&caller("ada"), "default", wish).await.unwrap();
}

pub(crate) async fn run(
    plane: &Plane,
    task_kind: &str,
    launched: Launched,
    change: impl FnOnce(&mut Value),
) {
    begin(plane, task_kind, change).await;
    turn(plane).await;
    set(plane, &agent(plane), launched);
    turn(plane).await;
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
    asked: &Object<AgentApproval>,
    by: &str,
    decision: Verdict,
) -> Result<(), ActionError> {
    let target = Target { namespace: "default".to_owned(), name: asked.name().to_owned() };
    let request = DecisionRequest {
        decision,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: asked.spec.artifact_digest.clone(),
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
async fn what_an_agent_says_is_kept_without_secrets_and_is_what_people_read() {
    let plane = allowing(&[("issue-comment", "auto")]).await;
    let keys = BTreeMap::from([("key".to_owned(), b"quite-own-value".to_vec())]);
    plane.store.set_secret("default", "own", keys, plane.world.now()).await.unwrap();
    let words = "The parser is off by one.\nIt read quite-own-value and API_KEY=hunter22.";
    run(&plane, "diagnose", said(words), |wish| wish["sourceRefs"] = json!({ "issue": 4 })).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    let (kept, text) = artifact(&plane, ArtifactKind::Diagnosis).await;
    assert!(run.status.artifacts.contains(&kept.name().to_owned()), "{:?}", run.status);
    assert!(text.contains("off by one") && text.contains("[secret]"), "{text}");
    let written = sent(&plane);
    let [WriteBack::Comment { body, .. }] = &written[..] else { panic!("{written:?}") };
    assert!(body.contains("off by one"), "{body}");
    for secret in ["quite-own-value", "hunter22"] {
        assert!(!body.contains(secret) && !text.contains(secret), "{body}\n{text}");
    }
}

#[tokio::test]
async fn a_review_is_kept_and_written_as_a_review() {
    let plane =
        allowing(&[("pull-request-review", "auto"), ("pull-request-comment", "auto")]).await;
    let review = json!({ "review": {
        "decision": "changes-requested", "body": "Not yet.",
        "comments": [{ "path": "src/a.rs", "line": 3, "body": "Off by one." }],
    }});
    let nothing = FinishedWork { files: Vec::new(), patch: Vec::new(), ..work() };
    let mut ended = said(&format!("I looked at it.\n{}", block(&review)));
    let report = ended.work.as_ref().unwrap().report.clone();
    ended.work = Some(FinishedWork { report, ..nothing });
    run(&plane, "review", ended, |wish| wish["sourceRefs"] = json!({ "pullRequest": 5 })).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    let kept = all::<AgentReviewArtifact>(&plane).await.remove(0);
    assert_eq!(kept.spec.decision, ReviewDecision::ChangesRequested);
    assert_eq!(kept.spec.target_ref, format!("acme/app#5@{SHA}"));
    assert_eq!(kept.spec.comments[0].line, 3);
    assert_eq!(artifact(&plane, ArtifactKind::Review).await.1, "I looked at it.");
    let written = sent(&plane);
    let [WriteBack::Review(review)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((review.number, review.sha.as_str()), (5, SHA));
    assert_eq!((review.body.as_str(), review.comments.len()), ("Not yet.", 1));
}

#[tokio::test]
async fn a_run_that_was_for_a_review_and_has_none_is_no_success() {
    let wrong = block(&json!({ "review": { "decision": "approved", "comments": "none" } }));
    for report in ["Fine.", wrong.as_str()] {
        let plane = allowing(&[("pull-request-review", "auto")]).await;
        run(&plane, "review", said(report), |wish| {
            wish["sourceRefs"] = json!({ "pullRequest": 5 });
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

/// How the run says that what it made is kept.
async fn indexed(plane: &Plane) -> (Standing, Reason) {
    let conditions = only_run(plane).await.status.conditions;
    let one = conditions.iter().find(|one| one.kind == ConditionType::ArtifactsIndexed).unwrap();
    (one.status, one.reason)
}

/// While a person is asked, a review that is there is not said to be lost; one that is lost is.
#[tokio::test]
async fn a_review_is_looked_for_among_the_reviews() {
    let plane = allowing(&[("pull-request-review", "always-approve")]).await;
    let review = json!({ "decision": "approved", "body": "Fine.", "comments": [] });
    run(&plane, "review", said(&block(&json!({ "review": review }))), |wish| {
        wish["sourceRefs"] = json!({ "pullRequest": 5 });
    })
    .await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    let kept = all::<AgentReviewArtifact>(&plane).await.remove(0);
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    assert_eq!(indexed(&plane).await, (Standing::True, Reason::ArtifactsRecorded));
    let (kind, namespace) = (Kind::AgentReviewArtifact, "default".to_owned());
    let gone = Write::Delete { kind, namespace, name: kept.name().to_owned(), version: 0 };
    plane.store.commit(vec![gone], plane.world.now()).await.unwrap();
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    assert_eq!(indexed(&plane).await, (Standing::False, Reason::UploadFailed));
}

/// An approval that untrusted text may have caused is published only after a person approves it.
#[tokio::test]
async fn an_agent_alone_approves_nothing_from_elsewhere() {
    let review = block(&json!({ "review": { "decision": "approved", "body": "@ada: fine" } }));
    for (sha, expected) in
        [(None, ReviewDecision::Approved), (Some("a".repeat(40)), ReviewDecision::CommentOnly)]
    {
        let plane = allowing(&[("pull-request-review", "auto")]).await;
        let untrusted = sha.is_some();
        run(&plane, "review", said(&review), |wish| {
            wish["sourceRefs"] = json!({ "pullRequest": 5 });
            wish["sha"] = json!(sha);
        })
        .await;
        let written = sent(&plane);
        let [WriteBack::Review(review)] = &written[..] else { panic!("{written:?}") };
        assert_eq!(review.decision, expected);
        assert_eq!(review.body.contains("@ada"), !untrusted, "{}", review.body);
    }
}

#[tokio::test]
async fn release_notes_are_proposed_for_the_tag_that_the_run_is_about() {
    let notes = block(&json!({ "release": { "title": "One", "notes": "It is faster." } }));
    for (reference, expected) in [("refs/tags/v1", 1), ("refs/heads/main", 0)] {
        let plane = allowing(&[("release-note", "auto")]).await;
        run(&plane, "release-notes", said(&format!("Ready.\n{notes}")), |wish| {
            wish["ref"] = json!(reference);
        })
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

/// Keeps a delivery, as if it had come before.
async fn delivered(plane: &Plane, payload: &Value) -> String {
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
async fn what_is_run_again_is_what_the_event_was_about() {
    let wish = block(&json!({ "rerun": { "reason": "the network was down" } }));
    let other = block(&json!({ "rerun": { "reason": "x", "run": "99" } }));
    for (answer, expected) in [(wish, 1), (other, 0)] {
        let plane = allowing(&[("check-rerun", "auto")]).await;
        let payload = json!({ "workflow_job": { "id": 7, "run_id": 3, "run_attempt": 2 } });
        let delivery = delivered(&plane, &payload).await;
        run(&plane, "diagnose", said(&answer), |wish| {
            wish["sourceRefs"] = json!({ "webhookDelivery": delivery });
        })
        .await;
        let again = WriteBack::Rerun { run: "7".to_owned(), whole_workflow: false, attempt: 2 };
        assert_eq!(sent(&plane), vec![again; expected], "{answer}");
        if expected > 0 {
            let (_, text) = artifact(&plane, ArtifactKind::RerunRequest).await;
            assert!(text.contains("the network was down"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_yes_to_a_deployment_is_proposed_and_a_no_is_not() {
    for (approve, expected) in [(true, 1), (false, 0)] {
        let plane = allowing(&[("deployment-approval", "auto")]).await;
        let payload = json!({ "workflow_run": { "id": 3 }, "environment": "production" });
        let delivery = delivered(&plane, &payload).await;
        let answer =
            block(&json!({ "deployment": { "approve": approve, "comment": "All green." } }));
        run(&plane, "gatekeep", said(&answer), |wish| {
            wish["sourceRefs"] = json!({ "webhookDelivery": delivery });
        })
        .await;
        let yes = WriteBack::DeploymentApproval {
            run: "3".to_owned(),
            environment: "production".to_owned(),
            comment: "All green.".to_owned(),
        };
        assert_eq!(sent(&plane), vec![yes; expected]);
    }
}

#[tokio::test]
async fn only_the_branch_of_the_pull_request_itself_is_pushed_to() {
    let known = [
        (pull(5, "main"), true),
        (pull(5, "another"), false),
        (
            PullRequestState { head_repository: Some("eve/app".to_owned()), ..pull(5, "main") },
            false,
        ),
        (PullRequestState { head_repository: None, ..pull(5, "main") }, false),
        // The forge knows no such pull request.
        (pull(6, "main"), false),
    ];
    for (state, onto) in known {
        let plane = allowing(&[("branch-push", "auto"), ("create-branch", "auto")]).await;
        plane.world.forge.pulls.lock().unwrap().insert(state.number, state.clone());
        run(&plane, "repair", said("Done."), |wish| {
            wish["sourceRefs"] = json!({ "pullRequest": 5 });
            wish["ref"] = json!("refs/heads/main");
        })
        .await;
        let written = sent(&plane);
        let [WriteBack::Push { branch, from, .. }] = &written[..] else { panic!("{written:?}") };
        assert_eq!(branch == "main", onto, "{state:?}: {written:?}");
        assert_eq!(from.is_some(), onto, "{state:?}: {written:?}");
        assert!(onto || branch.starts_with("agent/"), "{written:?}");
    }
}

#[tokio::test]
async fn a_pull_request_falls_with_the_push_that_it_stands_on() {
    let targets = [
        ("create-branch", "always-approve"),
        ("open-pull-request", "auto"),
        ("check-status", "auto"),
    ];
    for (decision, good) in [(Verdict::Reject, false), (Verdict::Approve, true)] {
        let plane = allowing(&targets).await;
        run(&plane, "repair", said("Done."), |_| {}).await;
        let asked = question(&plane, WriteBackTarget::CreateBranch).await;
        answer(&plane, &asked, "bob", decision).await.unwrap();
        turn(&plane).await;
        let run = only_run(&plane).await;
        let expected = if good { RunPhase::Succeeded } else { RunPhase::Failed };
        assert_eq!(run.status.phase, expected, "{:?}", run.status);
        let states: Vec<WriteBackState> =
            run.status.write_backs.iter().map(|one| one.state).collect();
        let state = if good { WriteBackState::Written } else { WriteBackState::Denied };
        assert_eq!(states, [state, state], "{:?}", run.status.write_backs);
        let opened =
            sent(&plane).iter().any(|one| matches!(one, WriteBack::OpenPullRequest { .. }));
        assert_eq!(opened, good);
        assert_eq!(said_of(&plane).last().unwrap().0 == CheckState::Success, good);
    }
}

#[tokio::test]
async fn no_pull_request_is_proposed_of_a_branch_that_is_not() {
    let plane = allowing(&[("open-pull-request", "auto")]).await;
    run(&plane, "repair", said("Done."), |_| {}).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(sent(&plane), []);
    // The proposal is stored, so that a person can push the branch.
    let (_, text) = artifact(&plane, ArtifactKind::BranchProposal).await;
    assert!(text.contains("agent/") && text.contains("open-pull-request"), "{text}");
}

#[tokio::test]
async fn the_person_who_started_a_run_cannot_approve_its_writes() {
    for may in [false, true] {
        let plane = stand(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["writeBackPolicy"]["dispatcherMayApprove"] = json!(may);
            }
        })
        .await;
        run(&plane, "repair", said("Done."), |_| {}).await;
        let asked = question(&plane, WriteBackTarget::CreateBranch).await;
        let own = answer(&plane, &asked, "ada", Verdict::Approve).await;
        assert_eq!(own.is_ok(), may, "{own:?}");
        if !may {
            answer(&plane, &asked, "bob", Verdict::Approve).await.unwrap();
        }
        turn(&plane).await;
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    }
}

/// The same for the person who retried it.
#[tokio::test]
async fn the_person_who_retried_a_run_cannot_approve_its_writes() {
    for may in [false, true] {
        let plane = stand(|object| {
            if object.kind == Kind::AgentStack {
                object.spec["writeBackPolicy"]["dispatcherMayApprove"] = json!(may);
            }
        })
        .await;
        run(&plane, "repair", standing(LaunchedState::Failed), |_| {}).await;
        let name = only_run(&plane).await.name().to_owned();
        let target = Target { namespace: "default".to_owned(), name };
        let retry = RunVerbRequest::default();
        plane.api.act_on_run(&caller("bob"), &target, RunVerb::Retry, retry).await.unwrap();
        turn(&plane).await;
        set(&plane, &agent(&plane), said("Done."));
        turn(&plane).await;
        let asked = question(&plane, WriteBackTarget::CreateBranch).await;
        let (whose, again) = (&asked.spec.dispatched_by, &asked.spec.attempt_asked_by);
        let person = |name: &str| (!may).then(|| name.to_owned());
        assert_eq!((whose, again), (&person("ada"), &person("bob")));
        for own in ["ada", "bob"] {
            if !may {
                let refused = answer(&plane, &asked, own, Verdict::Approve).await;
                assert!(refused.is_err(), "{own}");
            }
        }
        let by = if may { "bob" } else { "cyd" };
        answer(&plane, &asked, by, Verdict::Approve).await.unwrap();
    }
}

/// What a person looked at is the pull request as it was.
#[tokio::test]
async fn a_comment_is_not_written_to_a_pull_request_that_has_moved() {
    for moved in [false, true] {
        let plane = allowing(&[("pull-request-comment", "always-approve")]).await;
        plane.world.forge.pulls.lock().unwrap().insert(5, pull(5, "theirs"));
        run(&plane, "diagnose", said("Look at it."), |wish| {
            wish["sourceRefs"] = json!({ "pullRequest": 5 });
        })
        .await;
        let asked = question(&plane, WriteBackTarget::PullRequestComment).await;
        assert_eq!(asked.spec.target_state.as_deref(), Some(SHA));
        answer(&plane, &asked, "bob", Verdict::Approve).await.unwrap();
        if moved {
            let now = PullRequestState { head_sha: "b".repeat(40), ..pull(5, "theirs") };
            plane.world.forge.pulls.lock().unwrap().insert(5, now);
        }
        turn(&plane).await;
        assert_eq!(sent(&plane).len(), usize::from(!moved), "{:?}", sent(&plane));
    }
}

/// State and description of every status that was set, in order; all under one name.
fn said_of(plane: &Plane) -> Vec<(CheckState, String)> {
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
    said_of(plane).into_iter().map(|(state, words)| (state, first(words))).collect()
}

#[tokio::test]
async fn a_commit_says_how_far_its_run_is() {
    let plane = allowing(&[("check-status", "auto"), ("create-branch", "always-approve")]).await;
    let word = |state, words: &str| (state, words.to_owned());
    let waits = word(CheckState::Pending, "waits for its turn");
    let works = word(CheckState::Pending, "is at work");
    let asks = word(CheckState::Pending, "waits for a person");
    let done = word(CheckState::Success, "is done");
    let cancelled = word(CheckState::Error, "was cancelled");
    let failed = word(CheckState::Failure, "failed");
    // The pool is full: it waits, and is told of once however often it is looked at.
    let paused = |paused: bool| {
        let mut pool = super::dispatch::fleet(|_| {})
            .into_iter()
            .find(|one| one.metadata.name == "inside")
            .unwrap();
        pool.spec["paused"] = json!(paused);
        pool
    };
    begin(&plane, "repair", |_| {}).await;
    super::dispatch::declare(&plane, &[paused(true)]).await;
    turn(&plane).await;
    assert_eq!(states(&plane), std::slice::from_ref(&waits));
    super::dispatch::declare(&plane, &[paused(false)]).await;
    turn(&plane).await;
    assert_eq!(states(&plane), [waits.clone(), works.clone()]);
    set(&plane, &agent(&plane), said("Done."));
    turn(&plane).await;
    let asked = question(&plane, WriteBackTarget::CreateBranch).await;
    answer(&plane, &asked, "bob", Verdict::Approve).await.unwrap();
    turn(&plane).await;
    let mut expected = vec![waits, works.clone(), asks, done];
    assert_eq!(states(&plane), expected);
    // Once more, and cancelled; and once more, and failed.
    let target =
        Target { namespace: "default".to_owned(), name: only_run(&plane).await.name().to_owned() };
    let act = async |verb| {
        plane
            .api
            .act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default())
            .await
            .unwrap();
        turn(&plane).await;
    };
    act(RunVerb::Retry).await;
    act(RunVerb::Cancel).await;
    expected.extend([works.clone(), cancelled]);
    assert_eq!(states(&plane), expected);
    act(RunVerb::Retry).await;
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    expected.extend([works, failed]);
    assert_eq!(states(&plane), expected);
}

#[tokio::test]
async fn a_commit_says_nothing_where_no_policy_lets_it() {
    let plane = allowing(&[("create-branch", "auto")]).await;
    run(&plane, "repair", said("Done."), |_| {}).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(states(&plane), []);
    assert_eq!(sent(&plane).len(), 1, "the push is written");
}

/// Questions, failures and delays of the last attempt do not count for the next one.
#[tokio::test]
async fn a_retry_is_reported_like_a_first_attempt() {
    let plane = allowing(&[("check-status", "auto")]).await;
    run(&plane, "repair", standing(LaunchedState::Failed), |_| {}).await;
    let told = states(&plane);
    assert_eq!(told.last().unwrap().0, CheckState::Failure);
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
    turn(&plane).await;
    assert_eq!(states(&plane), told, "nothing is new");
    let target = Target { namespace: "default".to_owned(), name: run.name().to_owned() };
    let request = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Retry, request).await.unwrap();
    assert_eq!(only_run(&plane).await.status.check_report, Some(CheckReport::default()));
    turn(&plane).await;
    assert_eq!(states(&plane).last().unwrap(), &(CheckState::Pending, "is at work".to_owned()));
    assert!(states(&plane).len() > told.len());
}

/// A person is asked about the end alone, and the run does not wait for that.
#[tokio::test]
async fn a_person_is_asked_what_a_commit_says_only_at_the_end() {
    for (decision, expected) in [(Verdict::Approve, 1), (Verdict::Reject, 0)] {
        let plane = allowing(&[("check-status", "always-approve")]).await;
        begin(&plane, "repair", |_| {}).await;
        turn(&plane).await;
        assert_eq!(all::<AgentApproval>(&plane).await.len(), 0);
        set(&plane, &agent(&plane), said("Done."));
        turn(&plane).await;
        assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
        assert_eq!(states(&plane), []);
        let asked = question(&plane, WriteBackTarget::CheckStatus).await;
        assert_eq!(asked.status.phase, ApprovalPhase::Pending);
        answer(&plane, &asked, "bob", decision).await.unwrap();
        turn(&plane).await;
        assert_eq!(states(&plane).len(), expected);
        assert_eq!(all::<AgentApproval>(&plane).await.len(), 1, "nobody is asked twice");
    }
}

/// The answer of the forge is lost, or the forge is unavailable: the run still ends, and its final state is reported.
#[tokio::test]
async fn an_unavailable_forge_delays_no_run_and_gets_the_final_state() {
    let plane = allowing(&[("check-status", "auto")]).await;
    begin(&plane, "repair", |_| {}).await;
    let away = || ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.faults.lock().unwrap().extend([away(), away(), away()]);
    let mut troubles = 0;
    for round in 0..40 {
        if round == 5 {
            set(&plane, &agent(&plane), said("Done."));
        }
        troubles += plane.advance().await.errors.len();
        plane.world.clock.fetch_add(10_000, Ordering::Relaxed);
    }
    assert_eq!(troubles, 3, "each miss is told");
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded);
    assert_eq!(run.status.check_report.unwrap().told, RunPhase::Succeeded);
    assert_eq!(states(&plane).last().unwrap().0, CheckState::Success);
    let asked = plane.world.forge.asked.load(Ordering::Relaxed);
    assert!(asked <= 6, "it is not asked for ever: {asked}");
}

/// A forge that refuses a status does not make the run a failure.
#[tokio::test]
async fn a_status_that_is_refused_is_noted_and_no_more() {
    let plane = allowing(&[("check-status", "auto")]).await;
    let no = ForgeError::Unsupported("keep statuses".to_owned());
    plane.world.forge.faults.lock().unwrap().extend([no.clone(), no.clone(), no]);
    run(&plane, "repair", said("Done."), |_| {}).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded);
    let report = run.status.check_report.unwrap();
    assert_eq!(report.told, RunPhase::Succeeded);
    assert!(report.detail.contains("keep statuses"), "{report:?}");
}

#[tokio::test]
async fn a_name_of_a_file_writes_nothing_but_itself() {
    let plane = allowing(&[("issue-comment", "auto")]).await;
    let mut ended = said("Done.");
    let files = vec!["a`\n\n@everyone # x".to_owned()];
    let kept = ended.work.take().unwrap();
    ended.work = Some(FinishedWork { files, ..kept });
    run(&plane, "repair", ended, |wish| wish["sourceRefs"] = json!({ "issue": 4 })).await;
    let written = sent(&plane);
    let [WriteBack::Comment { body, .. }] = &written[..] else { panic!("{written:?}") };
    assert!(body.contains("everyone"), "{body}");
    assert!(!body.contains("\n@everyone"), "{body}");
    assert!(body.lines().any(|line| line.starts_with("- ``a`")), "{body}");
}

/// What becomes of work that changes this: how its run ends, and what was sent.
async fn pushed(change: impl FnOnce(&mut FinishedWork)) -> (RunPhase, String, usize) {
    let plane = allowing(&[("create-branch", "auto"), ("issue-comment", "auto")]).await;
    let keys = BTreeMap::from([
        ("password".to_owned(), b"Quite-0wn-value".to_vec()),
        ("user".to_owned(), b"admin".to_vec()),
    ]);
    plane.store.set_secret("default", "database", keys, plane.world.now()).await.unwrap();
    let mut ended = said("Done.");
    change(ended.work.as_mut().unwrap());
    run(&plane, "repair", ended, |wish| wish["sourceRefs"] = json!({ "issue": 4 })).await;
    let run = only_run(&plane).await;
    let sent = sent(&plane);
    let pushes = sent.iter().filter(|one| matches!(one, WriteBack::Push { .. })).count();
    let told = sent.iter().any(|one| format!("{one:?}").contains("Quite-0wn-value"));
    assert!(!told, "{sent:?}");
    (run.status.phase, run.status.terminal_reason.unwrap_or_default(), pushes)
}

/// What an agent has done otherwise.
type Change = Box<dyn FnOnce(&mut FinishedWork)>;

#[tokio::test]
async fn a_value_that_is_kept_here_is_not_pushed_in_the_change_its_names_or_its_history() {
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
        let (phase, why, pushes) = pushed(change).await;
        assert_eq!((phase, pushes), (RunPhase::Failed, 0), "{what}: {why}");
        assert!(why.starts_with("WriteBackDenied"), "{what}: {why}");
    }
    // What was there before may be taken away, and a plain word is everybody's.
    let lines = "-db = Quite-0wn-value\n+user = admin";
    let (phase, why, pushes) = pushed(|work| work.patch = patch(lines)).await;
    assert_eq!((phase, pushes), (RunPhase::Succeeded, 1), "{why}");
}

/// A retry does not forget what was spent, and a conversation that goes on is not counted twice.
#[tokio::test]
async fn a_run_costs_what_all_of_its_attempts_cost() {
    let plane = stand(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["budget"] = json!({ "tokens": 100, "microUsd": 2_000_000 });
        }
    })
    .await;
    begin(&plane, "repair", |_| {}).await;
    turn(&plane).await;
    let spent = |tokens: u64, attempts: u64, state| {
        let cost = RunCost { tokens, micro_usd: tokens * 10_000, ..RunCost::default() };
        Launched { cost, attempts, ..standing(state) }
    };
    let target =
        Target { namespace: "default".to_owned(), name: only_run(&plane).await.name().to_owned() };
    let act = async |verb, message: &str| {
        let request = RunVerbRequest { message: message.to_owned(), ..RunVerbRequest::default() };
        plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
        turn(&plane).await;
    };
    set(&plane, &agent(&plane), spent(30, 1, LaunchedState::Failed));
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.cost.tokens, 30);
    act(RunVerb::Retry, "").await;
    // It has what the first one left.
    let task = plane.engine.launched.lock().unwrap().last().unwrap().task.clone();
    let budget = task.parse::<toml::Table>().unwrap()["budget"].clone();
    assert_eq!(budget["tokens"].as_integer(), Some(70), "{task}");
    assert!((budget["usd"].as_float().unwrap() - 1.7).abs() < 1e-9, "{task}");
    set(&plane, &agent(&plane), spent(50, 1, LaunchedState::Failed));
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.cost.tokens, 80);
    // The conversation goes on: of its 60 it had spent 50 before.
    act(RunVerb::Continue, "More.").await;
    set(&plane, &agent(&plane), spent(60, 2, LaunchedState::Failed));
    turn(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.cost.tokens, 90);
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let each: Vec<u64> = attempts.iter().map(|one| one.status.cost.tokens).collect();
    assert_eq!(each, [30, 50, 10]);
    // Another ten and nothing is left: it is not started.
    act(RunVerb::Retry, "").await;
    set(&plane, &agent(&plane), spent(10, 1, LaunchedState::Failed));
    turn(&plane).await;
    let launched = plane.engine.launched.lock().unwrap().len();
    act(RunVerb::Retry, "").await;
    let run = only_run(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), launched);
    let why = run.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("BudgetExhausted"), "{why}");
}

#[tokio::test]
async fn a_session_says_whose_it_is_and_whether_it_lives() {
    let plane = stand(|_| {}).await;
    begin(&plane, "repair", |_| {}).await;
    turn(&plane).await;
    let session = async || all::<AgentSession>(&plane).await.remove(0);
    let living = session().await;
    assert_eq!(living.spec.adapter, "claude-code");
    assert!(living.status.live && !living.status.resumable, "{:?}", living.status);
    assert_eq!(living.status.event_cursor, format!("{:020}", 3));
    let more = Launched { cursor: 9, ..standing(LaunchedState::Running) };
    set(&plane, &agent(&plane), more);
    turn(&plane).await;
    let later = session().await;
    assert_eq!(later.status.event_cursor, format!("{:020}", 9));
    assert!(later.status.last_activity_at > living.status.last_activity_at);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let ended = session().await;
    assert!(!ended.status.live && ended.status.resumable, "{:?}", ended.status);
    let all_probed = plane.world.all_probed.load(Ordering::Relaxed);
    assert_eq!(all_probed, 0, "only its own program is asked");
}

#[tokio::test]
async fn a_question_lives_as_long_as_its_rule_says_and_not_longer_than_its_run() {
    let plane = stand(|_| {}).await;
    begin(&plane, "repair", |_| {}).await;
    let mut run = only_run(&plane).await;
    run.spec.approval_policy.expires_after = Some("2h".parse().unwrap());
    let longer = Write::Replace(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![longer], plane.world.now()).await.unwrap();
    turn(&plane).await;
    let questions = vec![("q1".to_owned(), "may it push?".to_owned())];
    let asking = Launched { questions, ..standing(LaunchedState::WaitingForApproval) };
    set(&plane, &agent(&plane), asking);
    turn(&plane).await;
    plane.world.clock.fetch_add(90 * 60_000, Ordering::Relaxed);
    turn(&plane).await;
    let asked = async || all::<AgentApproval>(&plane).await.remove(0);
    assert_eq!(asked().await.status.phase, ApprovalPhase::Pending);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
    assert_eq!(asked().await.status.phase, ApprovalPhase::Expired);
}

#[tokio::test]
async fn an_attempt_that_mends_another_is_told_what_did_not_pass() {
    assert_eq!(reason_for_retry(Some("failed: it broke")).0, AttemptReason::Retry);
    let (reason, message) = reason_for_retry(Some("rejected: scope does not hold"));
    assert_eq!((reason, message.as_deref()), (AttemptReason::Repair, Some("scope does not hold")));
    let plane = stand(|_| {}).await;
    begin(&plane, "repair", |_| {}).await;
    let mut attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    attempt.spec.attempt_reason = reason;
    attempt.spec.message = message;
    let mending = Write::Replace(AnyObject::of(&attempt).unwrap());
    plane.store.commit(vec![mending], plane.world.now()).await.unwrap();
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert!(launch.context.contains("\n    scope does not hold"), "{}", launch.context);
    assert!(launch.resume.is_none());
}

#[tokio::test]
async fn an_attempt_shows_what_it_may_use() {
    let plane = stand(|object| {
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
    begin(&plane, "repair", |_| {}).await;
    let attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    let limits = json!(attempt.status.limits).to_string();
    assert!(limits.contains("curl"), "{limits}");
    assert_eq!(attempt.status.hosts, ["docs.example.org:443"]);
    let notes = &attempt.status.limit_notes;
    assert!(notes.iter().any(|note| note.contains("Filesystem")), "{notes:?}");
}

#[tokio::test]
async fn an_execution_says_who_was_asked() {
    let plane = stand(|_| {}).await;
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
    turn(&plane).await;
    plane.world.clock.fetch_add(5 * 60_000, Ordering::Relaxed);
    turn(&plane).await;
    let execution = all::<AgentTriggerExecution>(&plane).await.remove(0);
    // The rule wants a person for what is written; before it began, nobody had to be asked.
    let decision = execution.spec.approval_decision.as_deref();
    assert_eq!(decision, Some("nobody had to be asked"), "{:?}", execution.spec);
}

#[tokio::test]
async fn a_run_whose_repository_is_gone_ends_all_the_same() {
    let plane = allowing(&[("check-status", "auto")]).await;
    begin(&plane, "repair", |_| {}).await;
    turn(&plane).await;
    let (kind, namespace, name) = (Kind::Repository, "default".to_owned(), "app".to_owned());
    let gone = Write::Delete { kind, namespace, name, version: 0 };
    plane.store.commit(vec![gone], plane.world.now()).await.unwrap();
    set(&plane, &agent(&plane), said("Done."));
    turn(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Succeeded);
    assert_eq!(artifact(&plane, ArtifactKind::Diagnosis).await.1, "Done.");
}
