//! Rules whose runs open an issue: with a write-back policy, once per run, with comments afterwards.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    DecisionRequest, FinishedWork, FireRequest, Fleet as _, ForgeError, Launched, LaunchedState,
    RunVerb, RunVerbRequest, Target, Verdict, WriteBack,
};
use bailiwick_fleet::write_back::{key, target as target_of};
use bailiwick_resources::{
    AgentApproval, Kind, RunPhase, WorkItemKind, WorkItemWorkspaceLink, WriteBackState,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, only_run, reconcile, set_state,
    start_plane, work,
};

const ANSWER: &str = "# Two flaky tests\n\nBoth wait for a port.";

fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

/// A plane with a rule for this work item and write-back policy.
async fn plane_with_rule(work_item: &str, policy: Value) -> Plane {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = policy.clone();
        }
    })
    .await;
    plane.world.has_worktrees.store(true, Ordering::Relaxed);
    let rule = json!({
        "lifecycleState": "active", "sources": ["manual"], "agentStack": "fixer",
        "taskKind": "triage", "promptTemplate": "Find flaky tests.", "workItem": work_item,
    });
    declare(&plane, &[document(Kind::AgentTriggerRule, "nightly", rule)]).await;
    plane
}

async fn fire(plane: &Plane) -> String {
    let fire = FireRequest { repository: "app".to_owned(), ..FireRequest::default() };
    let run = plane.api.fire(&caller("ada"), &target("nightly"), fire).await.unwrap().run;
    reconcile(plane).await;
    run.unwrap()
}

/// Ends the agent with this report and without changes.
async fn finish_with_report(plane: &Plane, answer: &str) {
    let work = FinishedWork {
        files: Vec::new(),
        patch: Vec::new(),
        report: Some(answer.to_owned()),
        ..work()
    };
    let done = Launched { work: Some(work), ..in_state(LaunchedState::Verified) };
    set_state(plane, &agent(plane), done);
    reconcile(plane).await;
}

fn auto(targets: &[&str]) -> Value {
    let modes: serde_json::Map<String, Value> =
        targets.iter().map(|target| ((*target).to_owned(), json!("auto"))).collect();
    json!({ "allowedTargets": targets, "modes": modes })
}

fn sent(plane: &Plane) -> Vec<WriteBack> {
    plane.world.forge.sent.lock().unwrap().clone()
}

#[tokio::test]
async fn finished_run_opens_an_issue_and_is_linked_to_it() {
    let plane = plane_with_rule("open-issue", auto(&["open-issue"])).await;
    let name = fire(&plane).await;
    finish_with_report(&plane, ANSWER).await;
    let sent = sent(&plane);
    let [WriteBack::OpenIssue { run, title, body, .. }] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((run.as_str(), title.as_str()), (name.as_str(), "Two flaky tests"));
    assert!(body.contains("Both wait for a port."), "{body}");
    let run = only_run(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(run.status.opened_issue, Some(1));
    assert_eq!(run.status.write_backs[0].id.as_deref(), Some("1"));
    let links = all::<WorkItemWorkspaceLink>(&plane).await;
    let issue = links.iter().find(|link| link.spec.work_item_ref.kind == WorkItemKind::Issue);
    assert_eq!(issue.unwrap().spec.work_item_ref.id, "1");
}

#[tokio::test]
async fn issue_needs_a_rule_that_opens_one_and_a_policy_that_allows_it() {
    for (work_item, policy) in [
        ("create", auto(&["open-issue"])),
        ("link", auto(&["open-issue"])),
        ("open-issue", auto(&["issue-comment"])),
    ] {
        let plane = plane_with_rule(work_item, policy).await;
        fire(&plane).await;
        finish_with_report(&plane, ANSWER).await;
        assert_eq!(sent(&plane), [], "{work_item}");
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
        assert_eq!(run.status.opened_issue, None);
    }
}

#[tokio::test]
async fn issue_waits_for_an_approval_of_exactly_this_issue() {
    let plane = plane_with_rule("open-issue", json!({ "allowedTargets": ["open-issue"] })).await;
    fire(&plane).await;
    finish_with_report(&plane, ANSWER).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::WaitingForApproval);
    assert_eq!(sent(&plane), []);
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    let approve = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target(approval.name()), approve).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(sent(&plane).len(), 1);
    assert_eq!(only_run(&plane).await.status.opened_issue, Some(1));
}

#[tokio::test]
async fn later_attempt_comments_on_the_issue_of_its_run() {
    let plane = plane_with_rule("open-issue", auto(&["open-issue", "issue-comment"])).await;
    let run = fire(&plane).await;
    finish_with_report(&plane, ANSWER).await;
    let retry = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target(&run), RunVerb::Retry, retry).await.unwrap();
    reconcile(&plane).await;
    finish_with_report(&plane, "# One flaky test\n\nThe other one is mended.").await;
    let sent = sent(&plane);
    let [WriteBack::OpenIssue { .. }, WriteBack::Comment { number, body, .. }] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(*number, 1);
    assert!(body.contains("The other one is mended."), "{body}");
}

#[tokio::test]
async fn issue_with_a_lost_response_is_requested_again_with_the_same_key() {
    let plane = plane_with_rule("open-issue", auto(&["open-issue"])).await;
    fire(&plane).await;
    let lost = ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.faults.lock().unwrap().push_back(lost);
    let work = FinishedWork {
        files: Vec::new(),
        patch: Vec::new(),
        report: Some(ANSWER.to_owned()),
        ..work()
    };
    set_state(
        &plane,
        &agent(&plane),
        Launched { work: Some(work), ..in_state(LaunchedState::Verified) },
    );
    for _ in 0..6 {
        plane.advance().await;
    }
    plane.world.clock.fetch_add(120_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.write_backs[0].state, WriteBackState::Written, "{:?}", run.status);
    assert_eq!(plane.world.forge.written.lock().unwrap().len(), 1);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 2);
}

/// Gitea answers 500 to a title with more than 255 characters, and the write would be retried for hours.
#[tokio::test]
async fn title_of_an_issue_is_shortened() {
    for long in ["x".repeat(900), "@ada ".repeat(200)] {
        let plane = plane_with_rule("open-issue", auto(&["open-issue"])).await;
        fire(&plane).await;
        finish_with_report(&plane, &format!("# {long}\n\nMore.")).await;
        let sent = sent(&plane);
        let [WriteBack::OpenIssue { title, .. }] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(title.chars().count(), 200, "{title}");
    }
}

/// A run opens one issue, however often it is requested and whatever its text is.
#[test]
fn issue_key_is_the_same_for_every_attempt_of_a_run() {
    let issue = |run: &str, title: &str| WriteBack::OpenIssue {
        run: run.to_owned(),
        run_uid: format!("uid of {run}"),
        title: title.to_owned(),
        body: String::new(),
    };
    let first = key("ada-1", "acme/app", &issue("adr-1", "One"));
    assert_eq!(first, key("ada-2", "acme/app", &issue("adr-1", "Two")));
    assert_ne!(first, key("ada-1", "acme/app", &issue("adr-2", "One")));
    assert_eq!(target_of("acme/app", &issue("adr-1", "One")).kind, "issue");
    let mut other = issue("adr-1", "One");
    let WriteBack::OpenIssue { run_uid, .. } = &mut other else { unreachable!() };
    *run_uid = "another".to_owned();
    assert_ne!(first, key("ada-1", "acme/app", &other), "the marker depends on the uid of the run");
}
