//! Facts that are observed in deliveries and on the forge.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, CheckRun, FleetStore as _, Target, World as _, WorldError,
};
use bailiwick_fleet::ports::{FireRequest, Fleet as _};
use bailiwick_resources::{
    AgentTriggerRule, ConditionType, EventSource, ExecutionDecision, ForgeKind, Kind, Reason,
    Repository, Standing, TrustTier, WebhookDelivery,
};
use serde_json::{Value, json};

use super::{
    Plane, advance_clock, all, caller, declare, declare_rule, document, executions, get_object,
    receive_push, receive_webhook, reconcile, sha, start_plane,
};

/// Declares the repository on a Gitea, with a credential.
pub(super) async fn on_gitea(plane: &Plane, more: Value) {
    let value = BTreeMap::from([("token".to_owned(), b"sesame sesame".to_vec())]);
    plane.store.set_secret("default", "forge", value, plane.world.now()).await.unwrap();
    let mut spec = json!({
        "fullName": "acme/app", "forge": "gitea", "apiUrl": "http://127.0.0.1:1/api/v1",
        "checkout": "/nowhere", "credentialRef": { "name": "forge", "key": "token" },
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    declare(plane, &[document(Kind::Repository, "app", spec)]).await;
}

fn workflow_run(workflow: &str, commit: &str) -> Value {
    json!({
        "action": "completed", "workflow": { "name": workflow },
        "workflow_run": {
            "id": 5, "path": "ci.yml", "head_branch": "main", "head_sha": commit,
            "conclusion": "failure",
            "head_repository": { "full_name": "acme/app" }, "pull_requests": null,
        },
        "repository": { "full_name": "acme/app", "owner": { "login": "acme" } },
        "sender": { "login": "alice" },
    })
}

fn comment(by: &str) -> Value {
    json!({
        "action": "created", "issue": { "number": 3, "title": "It fails", "user": { "login": by } },
        "comment": { "body": "@bailiwick mend it", "user": { "login": by } }, "is_pull": false,
        "repository": { "full_name": "acme/app", "owner": { "login": "acme" } },
        "sender": { "login": by },
    })
}

#[tokio::test]
async fn repository_is_not_ready_while_its_checkout_cannot_be_used() {
    let plane = start_plane().await;
    let seen = async || {
        let status = get_object::<Repository>(&plane, "app").await.status;
        let standing = |kind: ConditionType| {
            status.conditions.iter().find(|one| one.kind == kind).map(|one| one.status)
        };
        let both = (standing(ConditionType::Ready), standing(ConditionType::ForgeReachable));
        (both, status.checkout_problem)
    };
    let (good, bad) = (Some(Standing::True), Some(Standing::False));
    reconcile(&plane).await;
    assert_eq!(seen().await, ((good, good), None));
    let full = "the disk is full".to_owned();
    *plane.world.checkout_problem.lock().unwrap() = Some(WorldError::Checkout(full.clone()));
    advance_clock(&plane, 60_000);
    reconcile(&plane).await;
    assert_eq!(seen().await, ((bad, good), Some(full)));
    *plane.world.checkout_problem.lock().unwrap() = None;
    advance_clock(&plane, 15_000);
    reconcile(&plane).await;
    assert_eq!(seen().await, ((good, good), None));
}

#[tokio::test]
async fn own_account_is_looked_up_and_its_comments_start_nothing() {
    let plane = start_plane().await;
    on_gitea(&plane, json!({})).await;
    *plane.world.forge.account.lock().unwrap() = Some("mender-bot".to_owned());
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    receive_webhook(&plane, "a", ForgeKind::Gitea, "issue_comment", &comment("Mender-Bot")).await;
    receive_webhook(&plane, "b", ForgeKind::Gitea, "issue_comment", &comment("alice")).await;
    reconcile(&plane).await;
    let repository = get_object::<Repository>(&plane, "app").await;
    assert_eq!(repository.status.own_accounts, ["mender-bot"]);
    let found = executions(&plane, "answer").await;
    assert_eq!(found.len(), 2);
    assert!(found[0].reason.starts_with("OwnAccount: "), "{}", found[0].reason);
    assert!(!found[1].reason.starts_with("OwnAccount"), "{}", found[1].reason);
}

fn condition_of(rule: &RuleObject, kind: ConditionType) -> (Standing, Reason) {
    let found = rule.status.conditions.iter().find(|one| one.kind == kind).unwrap();
    (found.status, found.reason)
}

type RuleObject = bailiwick_resources::Object<AgentTriggerRule>;

#[tokio::test]
async fn workflows_and_labels_are_known_once_observed() {
    let plane = start_plane().await;
    on_gitea(&plane, json!({ "webhookSecretRef": { "name": "forge", "key": "token" } })).await;
    *plane.world.forge.labels.lock().unwrap() = Some(vec!["bug".to_owned()]);
    for workflow in ["CI", "Nightly"] {
        declare_rule(&plane, &workflow.to_lowercase(), |spec| {
            spec["sources"] = json!(["ci"]);
            spec["match"] = json!({ "workflow": [workflow] });
        })
        .await;
    }
    declare_rule(&plane, "labels", |spec| spec["match"] = json!({ "labels": ["bugg"] })).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let ci = get_object::<AgentTriggerRule>(&plane, "ci").await;
    let source = ConditionType::SourceConfigured;
    assert_eq!(condition_of(&ci, source), (Standing::Unknown, Reason::NotYetObserved));
    receive_webhook(&plane, "a", ForgeKind::Gitea, "workflow_run", &workflow_run("CI", &sha('a')))
        .await;
    reconcile(&plane).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let ci = get_object::<AgentTriggerRule>(&plane, "ci").await;
    assert_eq!(condition_of(&ci, source), (Standing::True, Reason::SourcesReady));
    let nightly = get_object::<AgentTriggerRule>(&plane, "nightly").await;
    assert_eq!(condition_of(&nightly, source), (Standing::False, Reason::UnknownCiWorkflow));
    let labels = get_object::<AgentTriggerRule>(&plane, "labels").await;
    let matcher = condition_of(&labels, ConditionType::MatcherValid);
    assert_eq!(matcher, (Standing::False, Reason::UnknownLabelMatcher));
}

#[tokio::test]
async fn template_is_checked_with_the_last_delivery_of_its_source() {
    let plane = start_plane().await;
    for (name, template) in [
        ("good", "{{ payload.workflow_run.head_sha }} {{ event.workflow }} {{ event.sha }}"),
        ("bad", "{{ payload.workflow_run.head_shaa }}"),
    ] {
        declare_rule(&plane, name, |spec| {
            spec["sources"] = json!(["ci"]);
            spec["lifecycleState"] = json!("draft");
            spec["promptTemplate"] = json!(template);
        })
        .await;
    }
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let kind = ConditionType::ContextTemplateValid;
    let unknown = (Standing::Unknown, Reason::NotYetObserved);
    assert_eq!(condition_of(&get_object(&plane, "bad").await, kind), unknown);
    on_gitea(&plane, json!({})).await;
    receive_webhook(&plane, "a", ForgeKind::Gitea, "workflow_run", &workflow_run("CI", &sha('a')))
        .await;
    // A later delivery of another source: no rule uses it.
    receive_push(&plane, "b", "main", &sha('b')).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let good = condition_of(&get_object(&plane, "good").await, kind);
    assert_eq!(good, (Standing::True, Reason::TemplateRendered));
    let bad = condition_of(&get_object(&plane, "bad").await, kind);
    assert_eq!(bad, (Standing::False, Reason::MissingPayloadField));
}

#[tokio::test]
async fn polled_event_is_stored_once_before_rules_are_evaluated() {
    let plane = start_plane().await;
    on_gitea(&plane, json!({ "pollEvery": "1m" })).await;
    declare_rule(&plane, "mend", |spec| spec["sources"] = json!(["ci"])).await;
    let check = |commit: char| CheckRun {
        id: "17".to_owned(),
        name: "CI".to_owned(),
        workflow: Some("CI".to_owned()),
        sha: sha(commit),
        branch: Some("main".to_owned()),
        conclusion: Some("failure".to_owned()),
        ended_at: None,
        payload: workflow_run("CI", &sha(commit)),
    };
    *plane.world.forge.checks.lock().unwrap() = vec![check('a'), check('b')];
    assert_eq!(plane.advance().await.errors, []);
    let stored = all::<WebhookDelivery>(&plane).await;
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|one| one.spec.delivery_id.starts_with("poll/17/")), "{stored:?}");
    assert!(stored.iter().all(|one| !one.status.evaluated));
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one.decision == ExecutionDecision::Created), "{found:?}");
    // A repeated check counts once.
    plane.world.forge.checks.lock().unwrap().push(check('b'));
    advance_clock(&plane, 120_000);
    reconcile(&plane).await;
    assert_eq!(all::<WebhookDelivery>(&plane).await.len(), 2);
    assert_eq!(executions(&plane, "mend").await.len(), 2);
}

/// A forge also lists old checks; a rule applies to checks that end after its creation.
#[tokio::test]
async fn check_that_ended_before_a_rule_existed_does_not_start_it() {
    let plane = start_plane().await;
    on_gitea(&plane, json!({ "pollEvery": "1m" })).await;
    let before = plane.world.now();
    advance_clock(&plane, 60_000);
    declare_rule(&plane, "mend", |spec| spec["sources"] = json!(["ci"])).await;
    let ended = |commit: char, at| CheckRun {
        ended_at: Some(at),
        ..polled_job("test", &sha(commit), None)
    };
    *plane.world.forge.checks.lock().unwrap() = vec![ended('a', before)];
    reconcile(&plane).await;
    assert_eq!(all::<WebhookDelivery>(&plane).await.len(), 1, "the check is stored");
    assert_eq!(executions(&plane, "mend").await, []);
    plane.world.forge.checks.lock().unwrap().push(ended('b', plane.world.now()));
    advance_clock(&plane, 120_000);
    reconcile(&plane).await;
    let found = executions(&plane, "mend").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{found:?}");
}

#[tokio::test]
async fn manual_rule_is_fired_once_for_each_request() {
    let plane = start_plane().await;
    declare_rule(&plane, "by-hand", |spec| {
        spec["sources"] = json!(["manual"]);
        spec["promptTemplate"] = json!("Mend {{ payload.what }}.");
    })
    .await;
    declare_rule(&plane, "others", |_| {}).await;
    let target = |name: &str| Target { namespace: "default".to_owned(), name: name.to_owned() };
    let fire_request = |id: &str| FireRequest {
        repository: "app".to_owned(),
        payload: json!({ "what": "the roof" }),
        request_id: Some(id.to_owned()),
        ..FireRequest::default()
    };
    let ada = caller("ada");
    let first = plane.api.fire(&ada, &target("by-hand"), fire_request("1")).await.unwrap();
    assert_eq!(first.decision, ExecutionDecision::Created, "{}", first.reason);
    let repeated = plane.api.fire(&ada, &target("by-hand"), fire_request("1")).await;
    if let Ok(repeated) = repeated {
        assert_eq!((repeated.decision, repeated.run), (ExecutionDecision::Deduplicated, first.run));
    }
    // Another request with the same id is refused.
    let mut other = fire_request("1");
    other.payload = json!({ "what": "the cellar" });
    let conflicting = plane.api.fire(&ada, &target("by-hand"), other).await;
    assert!(
        matches!(&conflicting, Err(ActionError::Conflict { code, .. }) if code == "RequestIdTaken"),
        "{conflicting:?}"
    );
    let found = executions(&plane, "by-hand").await;
    let runs = found.iter().filter(|one| one.decision == ExecutionDecision::Created).count();
    assert_eq!(runs, 1);
    assert_eq!((found[0].source, found[0].trust_tier), (EventSource::Manual, TrustTier::Trusted));
    assert_eq!(executions(&plane, "others").await, []);
    let refused = plane.api.fire(&ada, &target("others"), fire_request("2")).await;
    assert!(matches!(&refused, Err(ActionError::Conflict { code, .. }) if code == "NotManual"));
    // A pull request of an unknown author is not trusted.
    let mut fork = fire_request("3");
    fork.reference = Some("refs/pull/7/head".to_owned());
    let answer = plane.api.fire(&ada, &target("by-hand"), fork).await.unwrap();
    assert_eq!(answer.decision, ExecutionDecision::Rejected, "{}", answer.reason);
    let lines = plane.store.audit(0, 100).await.unwrap();
    let fired = lines.iter().filter(|(_, line)| line.event == "AgentTriggerFired");
    assert!(fired.clone().count() >= 2);
    assert!(fired.clone().all(|(_, line)| line.actor == "ada"));
}

/// A failed job in a webhook.
fn workflow_job(name: &str, commit: &str) -> Value {
    json!({
        "action": "completed",
        "workflow_job": {
            "id": 17, "run_id": 5, "name": name, "head_branch": "main", "head_sha": commit,
            "conclusion": "failure",
            "steps": [{ "name": "cargo test", "conclusion": "failure" }],
        },
        "repository": { "full_name": "acme/app", "owner": { "login": "acme" } },
        "sender": { "login": "alice" },
    })
}

/// The same job in a poll of the forge, with the run that it belongs to.
pub(super) fn polled_job(name: &str, commit: &str, pull_request: Option<u64>) -> CheckRun {
    let mut payload = workflow_job(name, commit);
    payload["workflow_run"] = workflow_run("CI", commit)["workflow_run"].clone();
    if let Some(number) = pull_request {
        payload["workflow_run"]["pull_requests"] = json!([{
            "number": number,
            "head": { "sha": commit, "repo": { "url": "http://127.0.0.1:1/api/v1/repos/acme/app" } },
        }]);
    }
    CheckRun {
        id: "17".to_owned(),
        name: name.to_owned(),
        workflow: Some("ci.yml".to_owned()),
        sha: commit.to_owned(),
        branch: Some("main".to_owned()),
        conclusion: Some("failure".to_owned()),
        ended_at: None,
        payload,
    }
}

/// One failed job, reported in every way and order, is one run. Another job, or the same job at another commit, is
/// another failure.
#[tokio::test]
async fn one_failure_starts_one_run_for_every_report_and_order() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Report {
        Job,
        Run,
        Poll(Option<u64>),
    }
    let orders: [&[Report]; 8] = [
        &[Report::Job, Report::Poll(None)],
        &[Report::Poll(None), Report::Job],
        &[Report::Job, Report::Poll(Some(7))],
        &[Report::Poll(Some(7)), Report::Job],
        &[Report::Run, Report::Poll(None)],
        &[Report::Poll(Some(7)), Report::Run],
        &[Report::Run, Report::Job, Report::Poll(None)],
        &[Report::Poll(None), Report::Job, Report::Run],
    ];
    for order in orders {
        let plane = start_plane().await;
        on_gitea(&plane, json!({ "pollEvery": "1m" })).await;
        let state = bailiwick_fleet::ports::PullRequestState {
            number: 7,
            open: true,
            head_branch: "main".to_owned(),
            head_sha: sha('a'),
            head_repository: Some("acme/app".to_owned()),
            base_branch: "main".to_owned(),
            title: String::new(),
            body: String::new(),
            files: Vec::new(),
        };
        plane.world.forge.pulls.lock().unwrap().insert(7, state);
        let branches = plane.world.forge.branches.clone();
        branches.lock().unwrap().insert("main".to_owned(), sha('a'));
        declare_rule(&plane, "mend", |spec| spec["sources"] = json!(["ci"])).await;
        reconcile(&plane).await;
        let gitea = ForgeKind::Gitea;
        for (index, report) in order.iter().enumerate() {
            match report {
                Report::Job => {
                    let job = workflow_job("test", &sha('a'));
                    receive_webhook(&plane, &format!("j{index}"), gitea, "workflow_job", &job)
                        .await;
                }
                Report::Run => {
                    let run = workflow_run("CI", &sha('a'));
                    receive_webhook(&plane, &format!("r{index}"), gitea, "workflow_run", &run)
                        .await;
                }
                Report::Poll(pull) => {
                    let check = polled_job("test", &sha('a'), *pull);
                    plane.world.forge.checks.lock().unwrap().push(check);
                    advance_clock(&plane, 120_000);
                }
            }
            reconcile(&plane).await;
        }
        let created_and_total = async || {
            let found = executions(&plane, "mend").await;
            let created = found.iter().filter(|one| one.decision == ExecutionDecision::Created);
            (created.count(), found.len())
        };
        assert_eq!(created_and_total().await, (1, order.len()), "{order:?}");
        // Positive control: another job at the same commit, and the same job at another commit.
        if order[0] != Report::Run && !order.contains(&Report::Run) {
            let other = workflow_job("lint", &sha('a'));
            receive_webhook(&plane, "lint", gitea, "workflow_job", &other).await;
            reconcile(&plane).await;
            assert_eq!(created_and_total().await.0, 2, "{order:?}");
        }
        branches.lock().unwrap().insert("main".to_owned(), sha('b'));
        let count = created_and_total().await.0;
        receive_webhook(&plane, "next", gitea, "workflow_job", &workflow_job("test", &sha('b')))
            .await;
        reconcile(&plane).await;
        assert_eq!(created_and_total().await.0, count + 1, "{order:?}");
    }
}
