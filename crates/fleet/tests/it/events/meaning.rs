//! Each action of a person is one event, in whatever way and however often a forge reports it.

use std::collections::VecDeque;
use std::sync::Arc;

use bailiwick_fleet::poll_cursor::PollCursor;
use bailiwick_fleet::ports::{
    AccountProblem, CommitPlace, FleetStore as _, ForgeError, LabelEntry, PolledEvent, World as _,
    Write,
};
use bailiwick_fleet::triggers::delivery_name;
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, ConditionType, ExecutionDecision, ForgeFacts, ForgeKind, Moment,
    Reason, Repository, Standing, TrustTier, WebhookDelivery,
};
use serde_json::{Value, json};

use super::observed::{on_gitea, polled_job};
use super::{
    Plane, advance_clock, all, declare_rule, executions, get_object, receive_webhook, reconcile,
    sha, start_plane,
};

const DAY: u64 = 24 * 3_600_000;

/// A payload sent by the owner of the repository, who has write access.
fn by_owner(mut payload: Value) -> Value {
    payload["repository"] = json!({ "full_name": "acme/app", "owner": { "login": "acme" } });
    payload["sender"] = json!({ "login": "acme" });
    payload
}

/// A control plane whose repository is on a Gitea with `main` at `a`.
async fn gitea() -> Plane {
    let plane = start_plane().await;
    on_gitea(&plane, json!({})).await;
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha('a'));
    *plane.world.forge.account.lock().unwrap() = Some("mender-bot".to_owned());
    plane
}

async fn created_runs(plane: &Plane, rule: &str) -> usize {
    let found = executions(plane, rule).await;
    found.iter().filter(|one| one.decision == ExecutionDecision::Created).count()
}

async fn label_rule(plane: &Plane, label: &str) {
    declare_rule(plane, label, |spec| {
        spec["sources"] = json!(["label"]);
        spec["allowLabelDispatch"] = true.into();
        spec["match"] = json!({ "labels": [label] });
    })
    .await;
}

const LABELS: [(&str, u64); 3] = [("bug", 1), ("agent", 2), ("docs", 3)];

/// The delivery of Gitea for changed labels of issue 3: it contains all current labels.
fn labels_payload(labels: &[&str], second: u64) -> Value {
    let id = |name: &str| LABELS.iter().find(|(known, _)| *known == name).unwrap().1;
    let labels: Vec<Value> =
        labels.iter().map(|name| json!({ "id": id(name), "name": name })).collect();
    let updated = Moment::from_millis(second * 1000).to_string();
    by_owner(json!({ "action": "label_updated", "issue": {
        "number": 3, "title": "It fails", "labels": labels, "updated_at": updated,
    } }))
}

fn entry(id: u64, label: &str, second: u64, added: bool) -> LabelEntry {
    let label_id = LABELS.iter().find(|(known, _)| *known == label).unwrap().1;
    let (label, by) = (label.to_owned(), "acme".to_owned());
    LabelEntry { id, label_id, label, by, at: Moment::from_millis(second * 1000), added }
}

#[tokio::test]
async fn label_rule_fires_once_for_the_added_label() {
    let plane = gitea().await;
    for (label, _) in LABELS {
        label_rule(&plane, label).await;
    }
    let history =
        [entry(11, "bug", 100, true), entry(12, "agent", 200, true), entry(13, "bug", 300, false)];
    plane.world.forge.label_histories.lock().unwrap().insert(3, history.to_vec());
    let count = async || {
        let mut count = Vec::new();
        for (label, _) in LABELS {
            count.push(created_runs(&plane, label).await);
        }
        count
    };
    let gitea = ForgeKind::Gitea;
    receive_webhook(&plane, "a", gitea, "issues", &labels_payload(&["bug"], 100)).await;
    reconcile(&plane).await;
    assert_eq!(count().await, [1, 0, 0]);
    receive_webhook(&plane, "b", gitea, "issues", &labels_payload(&["bug", "agent"], 200)).await;
    reconcile(&plane).await;
    assert_eq!(count().await, [1, 1, 0], "`bug` already existed");
    receive_webhook(&plane, "c", gitea, "issues", &labels_payload(&["agent"], 300)).await;
    reconcile(&plane).await;
    assert_eq!(count().await, [1, 1, 0], "a label was removed");
    // A person redelivers all webhooks days later, when the branch has another commit.
    advance_clock(&plane, 3 * DAY);
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha('b'));
    receive_webhook(&plane, "a2", gitea, "issues", &labels_payload(&["bug"], 100)).await;
    receive_webhook(&plane, "b2", gitea, "issues", &labels_payload(&["bug", "agent"], 200)).await;
    reconcile(&plane).await;
    assert_eq!(count().await, [1, 1, 0]);
}

#[tokio::test]
async fn labels_of_one_request_are_two_events_of_one_delivery() {
    let plane = gitea().await;
    label_rule(&plane, "bug").await;
    label_rule(&plane, "docs").await;
    let history = vec![entry(11, "bug", 100, true), entry(12, "docs", 100, true)];
    plane.world.forge.label_histories.lock().unwrap().insert(3, history);
    let both = labels_payload(&["bug", "docs"], 100);
    let name = receive_webhook(&plane, "a", ForgeKind::Gitea, "issues", &both).await;
    reconcile(&plane).await;
    assert_eq!((created_runs(&plane, "bug").await, created_runs(&plane, "docs").await), (1, 1));
    let delivery = get_object::<WebhookDelivery>(&plane, &name).await.status;
    assert_eq!((delivery.evaluated, delivery.executions.len()), (true, 2));
}

#[tokio::test]
async fn labels_without_a_history_start_nothing() {
    let plane = gitea().await;
    label_rule(&plane, "bug").await;
    declare_rule(&plane, "any", |spec| spec["sources"] = json!(["webhook"])).await;
    receive_webhook(&plane, "a", ForgeKind::Gitea, "issues", &labels_payload(&["bug"], 100)).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "bug").await, 0);
    assert_eq!(
        created_runs(&plane, "any").await,
        1,
        "positive control: it is still a webhook event"
    );
}

fn comment_payload(id: u64, by: &str, body: &str) -> Value {
    let mut payload = by_owner(json!({
        "action": "created", "is_pull": false,
        "issue": { "number": 3, "title": "It fails", "user": { "login": by } },
        "comment": { "id": id, "body": body, "user": { "login": by } },
    }));
    payload["sender"] = json!({ "login": by });
    payload
}

#[tokio::test]
async fn redelivered_comment_is_one_event() {
    for policy in [Value::Null, json!({ "key": "{{ event.issue }}", "window": "1m" })] {
        let plane = gitea().await;
        declare_rule(&plane, "answer", |spec| {
            spec["sources"] = json!(["issue-comment"]);
            if !policy.is_null() {
                spec["dedupePolicy"] = policy.clone();
            }
        })
        .await;
        let gitea = ForgeKind::Gitea;
        let webhook = comment_payload(4, "acme", "@bailiwick mend it");
        receive_webhook(&plane, "a", gitea, "issue_comment", &webhook).await;
        reconcile(&plane).await;
        assert_eq!(created_runs(&plane, "answer").await, 1);
        for (id, commit) in [("b", 'a'), ("c", 'b')] {
            plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha(commit));
            advance_clock(&plane, 2 * DAY);
            receive_webhook(&plane, id, gitea, "issue_comment", &webhook).await;
            reconcile(&plane).await;
            assert_eq!(created_runs(&plane, "answer").await, 1, "{id}");
        }
        let next = comment_payload(5, "acme", "@bailiwick mend it");
        receive_webhook(&plane, "d", gitea, "issue_comment", &next).await;
        reconcile(&plane).await;
        assert_eq!(created_runs(&plane, "answer").await, 2, "positive control: another comment");
    }
}

#[tokio::test]
async fn own_marker_copied_by_another_account_suppresses_no_rule() {
    let plane = gitea().await;
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    reconcile(&plane).await;
    let marked = "look at this\n\n<!-- bailiwick:0123456789abcdef0123456789abcdef -->";
    let gitea = ForgeKind::Gitea;
    receive_webhook(&plane, "a", gitea, "issue_comment", &comment_payload(4, "acme", marked)).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 1);
    receive_webhook(&plane, "b", gitea, "issue_comment", &comment_payload(5, "mender-bot", marked))
        .await;
    reconcile(&plane).await;
    let found = executions(&plane, "answer").await;
    assert!(found[1].reason.starts_with("OwnAccount: "), "positive control: {}", found[1].reason);
}

fn push_payload(reference: &str, before: &str, after: &str) -> Value {
    by_owner(json!({ "ref": reference, "before": before, "after": after, "commits": [],
        "total_commits": 0, "head_commit": null }))
}

#[tokio::test]
async fn webhook_test_delivery_starts_nothing() {
    let plane = gitea().await;
    for source in ["push", "webhook"] {
        declare_rule(&plane, source, |spec| spec["sources"] = json!([source])).await;
    }
    let gitea = ForgeKind::Gitea;
    let test = push_payload("refs/heads/main", &sha('a'), &sha('a'));
    let name = receive_webhook(&plane, "a", gitea, "push", &test).await;
    reconcile(&plane).await;
    assert!(get_object::<WebhookDelivery>(&plane, &name).await.status.evaluated);
    assert_eq!(executions(&plane, "push").await, []);
    assert_eq!(executions(&plane, "webhook").await, []);
    let real = push_payload("refs/heads/main", &sha('b'), &sha('a'));
    receive_webhook(&plane, "b", gitea, "push", &real).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "push").await, 1, "positive control");
    assert_eq!(created_runs(&plane, "webhook").await, 1, "positive control");
}

#[tokio::test]
async fn annotated_tag_is_one_event_at_its_commit() {
    for order in [["push", "create"], ["create", "push"]] {
        let plane = gitea().await;
        declare_rule(&plane, "release", |spec| spec["sources"] = json!(["tag"])).await;
        // Both events have the id of the tag object; its commit is looked up.
        let push = push_payload("refs/tags/v1", &"0".repeat(40), &sha('e'));
        let create = by_owner(json!({ "ref": "v1", "ref_type": "tag", "sha": sha('e') }));
        for event in order {
            let payload = if event == "push" { &push } else { &create };
            receive_webhook(&plane, event, ForgeKind::Gitea, event, payload).await;
            reconcile(&plane).await;
        }
        let runs = all::<AgentDispatchRun>(&plane).await;
        assert_eq!(runs.len(), 1, "{order:?}");
        assert_eq!(runs[0].spec.sha, sha('d'));
    }
}

#[tokio::test]
async fn pull_request_opened_and_synchronized_at_one_head_is_one_event() {
    for order in [["opened", "synchronized"], ["synchronized", "opened"]] {
        let plane = gitea().await;
        declare_rule(&plane, "review", |spec| spec["sources"] = json!(["webhook"])).await;
        let pull = |action: &str, head: char| {
            let repo = json!({ "full_name": "acme/app" });
            by_owner(json!({ "action": action, "pull_request": {
                "number": 7, "title": "Mend it", "user": { "login": "acme" },
                "head": { "ref": "mend", "sha": sha(head), "repo": repo },
                "base": { "ref": "main", "sha": sha('a'), "repo": repo },
            } }))
        };
        for action in order {
            let event = ForgeKind::Gitea;
            receive_webhook(&plane, action, event, "pull_request", &pull(action, 'b')).await;
            reconcile(&plane).await;
        }
        assert_eq!(created_runs(&plane, "review").await, 1, "{order:?}");
        let next = pull("synchronized", 'c');
        receive_webhook(&plane, "next", ForgeKind::Gitea, "pull_request", &next).await;
        reconcile(&plane).await;
        assert_eq!(created_runs(&plane, "review").await, 2, "positive control: another head");
    }
}

#[tokio::test]
async fn commit_status_is_assigned_to_its_branch() {
    let plane = gitea().await;
    declare_rule(&plane, "mend", |spec| {
        spec["sources"] = json!(["ci"]);
        spec["match"] = json!({ "branches": { "include": ["release"] } });
    })
    .await;
    let place = CommitPlace::Branch("release".to_owned());
    plane.world.forge.places.lock().unwrap().insert(sha('b'), place);
    for commit in ['b', 'c'] {
        let status = by_owner(json!({ "sha": sha(commit), "state": "failure",
            "context": "ci/build", "commit": { "id": sha(commit) } }));
        receive_webhook(&plane, &commit.to_string(), ForgeKind::Gitea, "status", &status).await;
        reconcile(&plane).await;
    }
    let found = executions(&plane, "mend").await;
    assert_eq!(found.len(), 1, "an unknown commit is on no branch");
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    assert_eq!(found[0].trust_tier, TrustTier::Trusted);
    let runs = all::<AgentDispatchRun>(&plane).await;
    assert_eq!(runs[0].spec.branch.as_deref(), Some("release"));
}

#[tokio::test]
async fn events_wait_until_the_forge_account_is_fixed() {
    let problems = [
        AccountProblem::TokenRejected,
        AccountProblem::RepositoryNotFound,
        AccountProblem::Renamed { to: "acme/other".to_owned() },
        AccountProblem::RightMissing { what: "branches".to_owned(), answer: "no".to_owned() },
    ];
    for problem in problems {
        let plane = gitea().await;
        declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
        reconcile(&plane).await;
        *plane.world.forge.problem.lock().unwrap() = Some(problem.clone());
        let webhook = comment_payload(4, "acme", "@bailiwick mend it");
        let name = receive_webhook(&plane, "a", ForgeKind::Gitea, "issue_comment", &webhook).await;
        for _ in 0..4 {
            plane.advance().await;
            advance_clock(&plane, DAY);
        }
        assert_eq!(executions(&plane, "answer").await, [], "{problem:?}");
        let status = get_object::<WebhookDelivery>(&plane, &name).await.status;
        assert!(!status.evaluated);
        assert!(status.fault.unwrap_or_default().contains(&problem.to_string()), "{problem:?}");
        *plane.world.forge.problem.lock().unwrap() = None;
        reconcile(&plane).await;
        assert_eq!(created_runs(&plane, "answer").await, 1, "{problem:?}");
    }
}

/// Another control plane with the same store and world, as after a restart.
fn restarted(plane: &Plane) -> Plane {
    let (store, engine) = (Arc::clone(&plane.store), Arc::clone(&plane.engine));
    Plane::new(store, engine, Arc::clone(&plane.world))
}

#[tokio::test]
async fn event_missed_by_a_stopped_server_is_found_once_after_the_start() {
    let plane = gitea().await;
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let webhook = comment_payload(4, "acme", "@bailiwick mend it");
    receive_webhook(&plane, "a", ForgeKind::Gitea, "issue_comment", &webhook).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 1);
    let last_delivery =
        get_object::<WebhookDelivery>(&plane, &delivery_name("acme/app", "a")).await;
    // The forge lists the known comment, and one whose webhook was lost.
    let polled = |id: u64| PolledEvent {
        id: format!("comment/{id}"),
        event: "issue_comment".to_owned(),
        payload: comment_payload(id, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    };
    *plane.world.forge.activity.lock().unwrap() = vec![polled(4), polled(5)];
    advance_clock(&plane, DAY);
    plane.world.forge.requested_cursors.lock().unwrap().clear();
    // Without the cursor of the first start, the last delivery counts.
    let mut repository = get_object::<Repository>(&plane, "app").await;
    repository.status.poll_cursor = None;
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let plane = restarted(&plane);
    reconcile(&plane).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 2);
    let cursors = plane.world.forge.requested_cursors.lock().unwrap().clone();
    let [Some(since)] = &cursors[..] else { panic!("not one request: {cursors:?}") };
    let since: Moment = since.parse().unwrap();
    let before = last_delivery.spec.received_at.millis() - since.millis();
    assert!((1..=600_000).contains(&before), "shortly before the last event: {before}");
    // The next start continues at the cursor of this one.
    let plane = restarted(&plane);
    reconcile(&plane).await;
    let last = plane.world.forge.requested_cursors.lock().unwrap().last().cloned();
    assert_eq!(last, Some(Some("the next cursor".to_owned())));
    assert_eq!(created_runs(&plane, "answer").await, 2);
}

/// A repository without `pollEvery` is polled for its checks only after the start of the server.
#[tokio::test]
async fn check_missed_by_a_stopped_server_is_found_once_after_the_start() {
    let plane = gitea().await;
    declare_rule(&plane, "mend", |spec| spec["sources"] = json!(["ci"])).await;
    let webhook = comment_payload(4, "acme", "Nobody is asked here.");
    receive_webhook(&plane, "a", ForgeKind::Gitea, "issue_comment", &webhook).await;
    reconcile(&plane).await;
    let check = polled_job("test", &sha('a'), None);
    plane.world.forge.checks.lock().unwrap().push(check);
    advance_clock(&plane, DAY);
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "mend").await, 0, "a running server gets checks from webhooks");
    for _ in 0..2 {
        let plane = restarted(&plane);
        reconcile(&plane).await;
        assert_eq!(created_runs(&plane, "mend").await, 1);
    }
}

/// The error is not reported if the forge does not support the list or the token cannot read it.
#[tokio::test]
async fn unreadable_check_list_is_reported_and_other_events_are_found() {
    let missing_right = || AccountProblem::RightMissing {
        what: "actions/runs".to_owned(),
        answer: "token lacks a scope".to_owned(),
    };
    for (error, is_reported) in [
        (ForgeError::Refused("actions/runs is longer than 1 MiB".to_owned()), true),
        (ForgeError::Unsupported("list checks".to_owned()), false),
        (ForgeError::Account(missing_right()), false),
    ] {
        let plane = gitea().await;
        declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
        reconcile(&plane).await;
        *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
            id: "comment/5".to_owned(),
            event: "issue_comment".to_owned(),
            payload: comment_payload(5, "acme", "@bailiwick mend it"),
            at: plane.world.now(),
        }];
        *plane.world.forge.checks_error.lock().unwrap() = Some(error.clone());
        let plane = restarted(&plane);
        let mut errors = Vec::new();
        for _ in 0..4 {
            errors.extend(plane.advance().await.errors);
        }
        assert_eq!(created_runs(&plane, "answer").await, 1, "{error}");
        let names_error =
            |(object, why): &(String, String)| object == "app" && why.contains(&error.to_string());
        let reports = errors.iter().filter(|error| names_error(error)).count();
        assert_eq!(reports, usize::from(is_reported), "{error}: {errors:?}");
    }
}

#[tokio::test]
async fn repository_is_polled_at_once_after_a_forge_outage() {
    for poll_every in [json!({}), json!({ "pollEvery": "1h" })] {
        let plane = start_plane().await;
        on_gitea(&plane, poll_every).await;
        reconcile(&plane).await;
        *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
        advance_clock(&plane, 2 * 3_600_000);
        for _ in 0..3 {
            plane.advance().await;
        }
        let poll_count = || plane.world.forge.requested_cursors.lock().unwrap().len();
        assert_eq!(poll_count(), 1, "the first poll");
        *plane.world.forge.problem.lock().unwrap() = None;
        advance_clock(&plane, 60_000);
        reconcile(&plane).await;
        assert_eq!(poll_count(), 2);
        advance_clock(&plane, 60_000);
        reconcile(&plane).await;
        assert_eq!(poll_count(), 2, "only once");
    }
}

/// Records a webhook that was refused because of its size, as the server does.
async fn refuse_webhook(plane: &Plane) {
    let mut repository = get_object::<Repository>(plane, "app").await;
    let mut cursor = PollCursor::of(&repository.status);
    cursor.note_refused_webhook(plane.world.now());
    cursor.store(&mut repository.status);
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
}

#[tokio::test]
async fn event_of_a_too_large_webhook_is_found_by_polling() {
    let plane = gitea().await;
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    reconcile(&plane).await;
    advance_clock(&plane, 3_600_000);
    *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
        id: "comment/5".to_owned(),
        event: "issue_comment".to_owned(),
        payload: comment_payload(5, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    }];
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 0, "control: no poll happens");
    refuse_webhook(&plane).await;
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 1);
    let status = get_object::<Repository>(&plane, "app").await.status;
    assert_eq!(PollCursor::of(&status).refused, None);
}

/// It was the first webhook, so no delivery and no cursor show since when events are missing.
#[tokio::test]
async fn poll_for_a_refused_webhook_starts_shortly_before_it() {
    let plane = gitea().await;
    reconcile(&plane).await;
    advance_clock(&plane, 3_600_000);
    let refused_at = plane.world.now();
    let mut repository = get_object::<Repository>(&plane, "app").await;
    let mut cursor = PollCursor::default();
    cursor.note_refused_webhook(refused_at);
    cursor.store(&mut repository.status);
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    reconcile(&plane).await;
    let cursors = plane.world.forge.requested_cursors.lock().unwrap().clone();
    let [None, Some(since)] = &cursors[..] else { panic!("not two requests: {cursors:?}") };
    let since: Moment = since.parse().unwrap();
    let before = refused_at.millis() - since.millis();
    assert!((1..=600_000).contains(&before), "{before}");
}

/// Any client can send a body that is too large.
#[tokio::test]
async fn refused_webhooks_cause_one_poll_in_five_minutes() {
    for poll_every in [json!({}), json!({ "pollEvery": "1h" })] {
        let plane = start_plane().await;
        on_gitea(&plane, poll_every).await;
        reconcile(&plane).await;
        let poll_count = || plane.world.forge.requested_cursors.lock().unwrap().len();
        assert_eq!(poll_count(), 1, "the first poll");
        for round in 1..3 {
            refuse_webhook(&plane).await;
            reconcile(&plane).await;
            assert_eq!(poll_count(), round, "too early");
            advance_clock(&plane, 300_000);
            reconcile(&plane).await;
            reconcile(&plane).await;
            assert_eq!(poll_count(), round + 1);
        }
        advance_clock(&plane, 600_000);
        reconcile(&plane).await;
        assert_eq!(poll_count(), 3, "no webhook was refused since then");
    }
}

#[tokio::test]
async fn refused_webhook_is_polled_for_once_after_a_forge_outage() {
    let plane = gitea().await;
    reconcile(&plane).await;
    advance_clock(&plane, 600_000);
    *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
    refuse_webhook(&plane).await;
    for _ in 0..3 {
        plane.advance().await;
        advance_clock(&plane, 60_000);
    }
    let poll_count = || plane.world.forge.requested_cursors.lock().unwrap().len();
    assert_eq!(poll_count(), 1, "the first poll");
    let status = get_object::<Repository>(&plane, "app").await.status;
    assert!(PollCursor::of(&status).refused.is_some(), "a restart does not lose it");
    *plane.world.forge.problem.lock().unwrap() = None;
    advance_clock(&plane, 600_000);
    reconcile(&plane).await;
    let polls_after_recovery = poll_count();
    assert!(polls_after_recovery > 1, "{polls_after_recovery}");
    advance_clock(&plane, 600_000);
    reconcile(&plane).await;
    assert_eq!(poll_count(), polls_after_recovery, "no webhook was refused since then");
}

/// The comment is older than the rule.
#[tokio::test]
async fn event_before_a_rule_existed_does_not_start_it() {
    let plane = gitea().await;
    let before = plane.world.now();
    advance_clock(&plane, 60_000);
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let polled = |id: u64, at: Moment| PolledEvent {
        id: format!("comment/{id}"),
        event: "issue_comment".to_owned(),
        payload: comment_payload(id, "acme", "@bailiwick mend it"),
        at,
    };
    // The first poll only sets the cursor.
    reconcile(&plane).await;
    *plane.world.forge.activity.lock().unwrap() = vec![polled(4, before)];
    let plane = restarted(&plane);
    reconcile(&plane).await;
    assert_eq!(all::<WebhookDelivery>(&plane).await.len(), 1, "the comment is found");
    assert_eq!(created_runs(&plane, "answer").await, 0);
    let after = plane.world.now();
    *plane.world.forge.activity.lock().unwrap() = vec![polled(5, after)];
    let plane = restarted(&plane);
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "answer").await, 1);
}

#[tokio::test]
async fn start_during_a_forge_outage_catches_up_later() {
    let plane = gitea().await;
    declare_rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let webhook = comment_payload(4, "acme", "@bailiwick mend it");
    receive_webhook(&plane, "a", ForgeKind::Gitea, "issue_comment", &webhook).await;
    reconcile(&plane).await;
    *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
    *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
        id: "comment/5".to_owned(),
        event: "issue_comment".to_owned(),
        payload: comment_payload(5, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    }];
    let plane = restarted(&plane);
    for _ in 0..3 {
        plane.advance().await;
        advance_clock(&plane, DAY);
    }
    assert_eq!(created_runs(&plane, "answer").await, 1);
    let conditions = get_object::<Repository>(&plane, "app").await.status.conditions;
    let condition = |kind| conditions.iter().find(|one| one.kind == kind).unwrap();
    let account = condition(ConditionType::AccountSufficient);
    assert_eq!((account.status, account.reason), (Standing::False, Reason::ForgeTokenRejected));
    *plane.world.forge.problem.lock().unwrap() = None;
    *plane.world.forge.facts.lock().unwrap() = Some(ForgeFacts {
        version: Some("1.27.2".to_owned()),
        may_write: true,
        reads_rights: false,
        ..ForgeFacts::default()
    });
    for _ in 0..3 {
        plane.advance().await;
        advance_clock(&plane, DAY);
    }
    assert_eq!(created_runs(&plane, "answer").await, 2);
    let conditions = get_object::<Repository>(&plane, "app").await.status.conditions;
    let condition = |kind| conditions.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(condition(ConditionType::AccountSufficient).status, Standing::True);
    assert_eq!(condition(ConditionType::ActorRightsKnown).reason, Reason::ActorRightsUnreadable);
    assert_eq!(condition(ConditionType::Ready).status, Standing::True);
}

/// Commits that only the forge has are fetched again later.
#[tokio::test]
async fn commit_that_the_account_cannot_fetch_is_fetched_later() {
    let plane = gitea().await;
    declare_rule(&plane, "mend", |_| {}).await;
    let fault = ForgeError::from(AccountProblem::TokenRejected);
    let refused = || Err(fault.clone().into());
    let results = VecDeque::from([refused(), refused(), Ok(Some(sha('a')))]);
    plane.world.commits.lock().unwrap().insert(sha('a'), results);
    let real = push_payload("refs/heads/main", &sha('b'), &sha('a'));
    receive_webhook(&plane, "a", ForgeKind::Gitea, "push", &real).await;
    for _ in 0..3 {
        assert_eq!(created_runs(&plane, "mend").await, 0);
        plane.advance().await;
        advance_clock(&plane, DAY);
    }
    reconcile(&plane).await;
    assert_eq!(created_runs(&plane, "mend").await, 1);
}
