//! Events mean what people did: each thing once, in whatever way and however often a forge reports it.

use std::collections::VecDeque;
use std::sync::Arc;

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
use super::{Plane, all, arrive, executions, later, one, rule, sha, stand, turns};

const DAY: u64 = 24 * 3_600_000;

/// A payload of the owner of the repository, who may write to it.
fn by_owner(mut payload: Value) -> Value {
    payload["repository"] = json!({ "full_name": "acme/app", "owner": { "login": "acme" } });
    payload["sender"] = json!({ "login": "acme" });
    payload
}

/// A plane whose repository is on a Gitea with `main` at `a`.
async fn gitea() -> Plane {
    let plane = stand().await;
    on_gitea(&plane, json!({})).await;
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha('a'));
    *plane.world.forge.account.lock().unwrap() = Some("mender-bot".to_owned());
    plane
}

async fn created(plane: &Plane, rule: &str) -> usize {
    let found = executions(plane, rule).await;
    found.iter().filter(|one| one.decision == ExecutionDecision::Created).count()
}

async fn label_rule(plane: &Plane, label: &str) {
    rule(plane, label, |spec| {
        spec["sources"] = json!(["label"]);
        spec["allowLabelDispatch"] = true.into();
        spec["match"] = json!({ "labels": [label] });
    })
    .await;
}

const LABELS: [(&str, u64); 3] = [("bug", 1), ("agent", 2), ("docs", 3)];

/// The delivery of Gitea that the labels of issue 3 changed: it has all that there are now.
fn labels_now(labels: &[&str], second: u64) -> Value {
    let id = |name: &str| LABELS.iter().find(|(is, _)| *is == name).unwrap().1;
    let labels: Vec<Value> =
        labels.iter().map(|name| json!({ "id": id(name), "name": name })).collect();
    let updated = Moment::from_millis(second * 1000).to_string();
    by_owner(json!({ "action": "label_updated", "issue": {
        "number": 3, "title": "It fails", "labels": labels, "updated_at": updated,
    } }))
}

fn entry(id: u64, label: &str, second: u64, added: bool) -> LabelEntry {
    let label_id = LABELS.iter().find(|(is, _)| *is == label).unwrap().1;
    let (label, by) = (label.to_owned(), "acme".to_owned());
    LabelEntry { id, label_id, label, by, at: Moment::from_millis(second * 1000), added }
}

#[tokio::test]
async fn a_label_rule_fires_once_for_the_label_that_was_added() {
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
            count.push(created(&plane, label).await);
        }
        count
    };
    let gitea = ForgeKind::Gitea;
    arrive(&plane, "a", gitea, "issues", &labels_now(&["bug"], 100)).await;
    turns(&plane).await;
    assert_eq!(count().await, [1, 0, 0]);
    arrive(&plane, "b", gitea, "issues", &labels_now(&["bug", "agent"], 200)).await;
    turns(&plane).await;
    assert_eq!(count().await, [1, 1, 0], "`bug` was there before");
    arrive(&plane, "c", gitea, "issues", &labels_now(&["agent"], 300)).await;
    turns(&plane).await;
    assert_eq!(count().await, [1, 1, 0], "a label was taken off");
    // A person redelivers all of it, days later, when the branch has moved on.
    later(&plane, 3 * DAY);
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha('b'));
    arrive(&plane, "a2", gitea, "issues", &labels_now(&["bug"], 100)).await;
    arrive(&plane, "b2", gitea, "issues", &labels_now(&["bug", "agent"], 200)).await;
    turns(&plane).await;
    assert_eq!(count().await, [1, 1, 0]);
}

#[tokio::test]
async fn labels_of_one_request_are_two_events_of_one_delivery() {
    let plane = gitea().await;
    label_rule(&plane, "bug").await;
    label_rule(&plane, "docs").await;
    let history = vec![entry(11, "bug", 100, true), entry(12, "docs", 100, true)];
    plane.world.forge.label_histories.lock().unwrap().insert(3, history);
    let both = labels_now(&["bug", "docs"], 100);
    let name = arrive(&plane, "a", ForgeKind::Gitea, "issues", &both).await;
    turns(&plane).await;
    assert_eq!((created(&plane, "bug").await, created(&plane, "docs").await), (1, 1));
    let delivery = one::<WebhookDelivery>(&plane, &name).await.status;
    assert_eq!((delivery.evaluated, delivery.executions.len()), (true, 2));
}

#[tokio::test]
async fn labels_of_which_nobody_knows_who_added_which_start_nothing() {
    let plane = gitea().await;
    label_rule(&plane, "bug").await;
    rule(&plane, "any", |spec| spec["sources"] = json!(["webhook"])).await;
    arrive(&plane, "a", ForgeKind::Gitea, "issues", &labels_now(&["bug"], 100)).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "bug").await, 0);
    assert_eq!(created(&plane, "any").await, 1, "the control: it is a webhook still");
}

fn comment(id: u64, by: &str, body: &str) -> Value {
    let mut payload = by_owner(json!({
        "action": "created", "is_pull": false,
        "issue": { "number": 3, "title": "It fails", "user": { "login": by } },
        "comment": { "id": id, "body": body, "user": { "login": by } },
    }));
    payload["sender"] = json!({ "login": by });
    payload
}

#[tokio::test]
async fn a_comment_that_is_redelivered_is_one_event_whenever_it_comes() {
    for policy in [Value::Null, json!({ "key": "{{ event.issue }}", "window": "1m" })] {
        let plane = gitea().await;
        rule(&plane, "answer", |spec| {
            spec["sources"] = json!(["issue-comment"]);
            if !policy.is_null() {
                spec["dedupePolicy"] = policy.clone();
            }
        })
        .await;
        let gitea = ForgeKind::Gitea;
        let words = comment(4, "acme", "@bailiwick mend it");
        arrive(&plane, "a", gitea, "issue_comment", &words).await;
        turns(&plane).await;
        assert_eq!(created(&plane, "answer").await, 1);
        for (id, commit) in [("b", 'a'), ("c", 'b')] {
            plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), sha(commit));
            later(&plane, 2 * DAY);
            arrive(&plane, id, gitea, "issue_comment", &words).await;
            turns(&plane).await;
            assert_eq!(created(&plane, "answer").await, 1, "{id}");
        }
        let next = comment(5, "acme", "@bailiwick mend it");
        arrive(&plane, "d", gitea, "issue_comment", &next).await;
        turns(&plane).await;
        assert_eq!(created(&plane, "answer").await, 2, "the control: another comment");
    }
}

#[tokio::test]
async fn a_strangers_copy_of_our_mark_mutes_no_rule() {
    let plane = gitea().await;
    rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    turns(&plane).await;
    let marked = "look at this\n\n<!-- bailiwick:0123456789abcdef0123456789abcdef -->";
    let gitea = ForgeKind::Gitea;
    arrive(&plane, "a", gitea, "issue_comment", &comment(4, "acme", marked)).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 1);
    arrive(&plane, "b", gitea, "issue_comment", &comment(5, "mender-bot", marked)).await;
    turns(&plane).await;
    let found = executions(&plane, "answer").await;
    assert!(found[1].reason.starts_with("OwnAccount: "), "the control: {}", found[1].reason);
}

fn pushed(reference: &str, before: &str, after: &str) -> Value {
    by_owner(json!({ "ref": reference, "before": before, "after": after, "commits": [],
        "total_commits": 0, "head_commit": null }))
}

#[tokio::test]
async fn a_test_of_the_webhook_starts_nothing() {
    let plane = gitea().await;
    for source in ["push", "webhook"] {
        rule(&plane, source, |spec| spec["sources"] = json!([source])).await;
    }
    let gitea = ForgeKind::Gitea;
    let test = pushed("refs/heads/main", &sha('a'), &sha('a'));
    let name = arrive(&plane, "a", gitea, "push", &test).await;
    turns(&plane).await;
    assert!(one::<WebhookDelivery>(&plane, &name).await.status.evaluated);
    assert_eq!(executions(&plane, "push").await, []);
    assert_eq!(executions(&plane, "webhook").await, []);
    let real = pushed("refs/heads/main", &sha('b'), &sha('a'));
    arrive(&plane, "b", gitea, "push", &real).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "push").await, 1, "the control");
    assert_eq!(created(&plane, "webhook").await, 1, "the control");
}

#[tokio::test]
async fn an_annotated_tag_is_one_event_at_its_commit() {
    for order in [["push", "create"], ["create", "push"]] {
        let plane = gitea().await;
        rule(&plane, "release", |spec| spec["sources"] = json!(["tag"])).await;
        // Both have the id of the tag; the commit behind it is looked up.
        let push = pushed("refs/tags/v1", &"0".repeat(40), &sha('e'));
        let create = by_owner(json!({ "ref": "v1", "ref_type": "tag", "sha": sha('e') }));
        for event in order {
            let payload = if event == "push" { &push } else { &create };
            arrive(&plane, event, ForgeKind::Gitea, event, payload).await;
            turns(&plane).await;
        }
        let runs = all::<AgentDispatchRun>(&plane).await;
        assert_eq!(runs.len(), 1, "{order:?}");
        assert_eq!(runs[0].spec.sha, sha('d'));
    }
}

#[tokio::test]
async fn a_pull_request_opened_and_synchronized_at_one_head_is_one_event() {
    for order in [["opened", "synchronized"], ["synchronized", "opened"]] {
        let plane = gitea().await;
        rule(&plane, "review", |spec| spec["sources"] = json!(["webhook"])).await;
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
            arrive(&plane, action, event, "pull_request", &pull(action, 'b')).await;
            turns(&plane).await;
        }
        assert_eq!(created(&plane, "review").await, 1, "{order:?}");
        let next = pull("synchronized", 'c');
        arrive(&plane, "next", ForgeKind::Gitea, "pull_request", &next).await;
        turns(&plane).await;
        assert_eq!(created(&plane, "review").await, 2, "the control: another head");
    }
}

#[tokio::test]
async fn a_status_finds_its_branch() {
    let plane = gitea().await;
    rule(&plane, "mend", |spec| {
        spec["sources"] = json!(["ci"]);
        spec["match"] = json!({ "branches": { "include": ["release"] } });
    })
    .await;
    let place = CommitPlace::Branch("release".to_owned());
    plane.world.forge.places.lock().unwrap().insert(sha('b'), place);
    for commit in ['b', 'c'] {
        let status = by_owner(json!({ "sha": sha(commit), "state": "failure",
            "context": "ci/build", "commit": { "id": sha(commit) } }));
        arrive(&plane, &commit.to_string(), ForgeKind::Gitea, "status", &status).await;
        turns(&plane).await;
    }
    let found = executions(&plane, "mend").await;
    assert_eq!(found.len(), 1, "a commit that is nowhere is on no branch");
    assert_eq!(found[0].decision, ExecutionDecision::Created, "{}", found[0].reason);
    assert_eq!(found[0].trust_tier, TrustTier::Trusted);
    let runs = all::<AgentDispatchRun>(&plane).await;
    assert_eq!(runs[0].spec.branch.as_deref(), Some("release"));
}

#[tokio::test]
async fn events_wait_until_a_person_has_fixed_the_account_and_then_start_runs() {
    let problems = [
        AccountProblem::TokenRejected,
        AccountProblem::RepositoryNotFound,
        AccountProblem::Renamed { to: "acme/other".to_owned() },
        AccountProblem::RightMissing { what: "branches".to_owned(), answer: "no".to_owned() },
    ];
    for problem in problems {
        let plane = gitea().await;
        rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
        turns(&plane).await;
        *plane.world.forge.problem.lock().unwrap() = Some(problem.clone());
        let words = comment(4, "acme", "@bailiwick mend it");
        let name = arrive(&plane, "a", ForgeKind::Gitea, "issue_comment", &words).await;
        for _ in 0..4 {
            plane.advance().await;
            later(&plane, DAY);
        }
        assert_eq!(executions(&plane, "answer").await, [], "{problem:?}");
        let waits = one::<WebhookDelivery>(&plane, &name).await.status;
        assert!(!waits.evaluated);
        assert!(waits.fault.unwrap_or_default().contains(&problem.to_string()), "{problem:?}");
        *plane.world.forge.problem.lock().unwrap() = None;
        turns(&plane).await;
        assert_eq!(created(&plane, "answer").await, 1, "{problem:?}");
    }
}

/// The same store and world under another control plane, as after a restart.
fn restarted(plane: &Plane) -> Plane {
    let (store, engine) = (Arc::clone(&plane.store), Arc::clone(&plane.engine));
    Plane::new(store, engine, Arc::clone(&plane.world))
}

#[tokio::test]
async fn what_happened_while_nobody_listened_is_found_once_after_the_start() {
    let plane = gitea().await;
    rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let words = comment(4, "acme", "@bailiwick mend it");
    arrive(&plane, "a", ForgeKind::Gitea, "issue_comment", &words).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 1);
    let known = one::<WebhookDelivery>(&plane, &delivery_name("acme/app", "a")).await;
    // The forge lists the comment that is known, and one whose webhook was lost.
    let polled = |id: u64| PolledEvent {
        id: format!("comment/{id}"),
        event: "issue_comment".to_owned(),
        payload: comment(id, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    };
    *plane.world.forge.activity.lock().unwrap() = vec![polled(4), polled(5)];
    later(&plane, DAY);
    plane.world.forge.asked_since.lock().unwrap().clear();
    // The cursor of the first start is forgotten: then the last delivery counts.
    let mut repository = one::<Repository>(&plane, "app").await;
    repository.status.poll_cursor = None;
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let plane = restarted(&plane);
    turns(&plane).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 2);
    let asked = plane.world.forge.asked_since.lock().unwrap().clone();
    let [Some(since)] = &asked[..] else { panic!("it is asked once: {asked:?}") };
    let since: Moment = since.parse().unwrap();
    let before = known.spec.received_at.millis() - since.millis();
    assert!((1..=600_000).contains(&before), "a little before the last event: {before}");
    // The next start goes on from where this one ended.
    let plane = restarted(&plane);
    turns(&plane).await;
    let last = plane.world.forge.asked_since.lock().unwrap().last().cloned();
    assert_eq!(last, Some(Some("the next cursor".to_owned())));
    assert_eq!(created(&plane, "answer").await, 2);
}

/// A repository without `pollEvery` is asked for its checks after the start of the server, and only then.
#[tokio::test]
async fn check_that_ended_while_nobody_listened_is_found_once_after_the_start() {
    let plane = gitea().await;
    rule(&plane, "mend", |spec| spec["sources"] = json!(["ci"])).await;
    let words = comment(4, "acme", "Nobody is asked here.");
    arrive(&plane, "a", ForgeKind::Gitea, "issue_comment", &words).await;
    turns(&plane).await;
    let check = polled_job("test", &sha('a'), None);
    plane.world.forge.checks.lock().unwrap().push(check);
    later(&plane, DAY);
    turns(&plane).await;
    assert_eq!(created(&plane, "mend").await, 0, "while it runs, webhooks report checks");
    for _ in 0..2 {
        let plane = restarted(&plane);
        turns(&plane).await;
        assert_eq!(created(&plane, "mend").await, 1);
    }
}

/// Only a list that the forge does not have, or that the token cannot read, is nothing to report.
#[tokio::test]
async fn list_of_checks_that_cannot_be_read_is_reported_and_other_events_are_found() {
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
        rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
        turns(&plane).await;
        *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
            id: "comment/5".to_owned(),
            event: "issue_comment".to_owned(),
            payload: comment(5, "acme", "@bailiwick mend it"),
            at: plane.world.now(),
        }];
        *plane.world.forge.checks_error.lock().unwrap() = Some(error.clone());
        let plane = restarted(&plane);
        let mut errors = Vec::new();
        for _ in 0..4 {
            errors.extend(plane.advance().await.errors);
        }
        assert_eq!(created(&plane, "answer").await, 1, "{error}");
        let names_error =
            |(object, why): &(String, String)| object == "app" && why.contains(&error.to_string());
        let reports = errors.iter().filter(|error| names_error(error)).count();
        assert_eq!(reports, usize::from(is_reported), "{error}: {errors:?}");
    }
}

#[tokio::test]
async fn repository_is_polled_at_once_when_its_forge_answers_again() {
    for poll_every in [json!({}), json!({ "pollEvery": "1h" })] {
        let plane = stand().await;
        on_gitea(&plane, poll_every).await;
        turns(&plane).await;
        *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
        later(&plane, 2 * 3_600_000);
        for _ in 0..3 {
            plane.advance().await;
        }
        let asked = || plane.world.forge.asked_since.lock().unwrap().len();
        assert_eq!(asked(), 1, "the first look");
        *plane.world.forge.problem.lock().unwrap() = None;
        later(&plane, 60_000);
        turns(&plane).await;
        assert_eq!(asked(), 2);
        later(&plane, 60_000);
        turns(&plane).await;
        assert_eq!(asked(), 2, "once");
    }
}

/// A webhook was refused because it is too large, as the server notes it.
async fn refuse_webhook(plane: &Plane) {
    let mut repository = one::<Repository>(plane, "app").await;
    repository.status.webhook_refused_at = Some(plane.world.now());
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
}

#[tokio::test]
async fn an_event_whose_webhook_was_too_large_is_found() {
    let plane = gitea().await;
    rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    turns(&plane).await;
    later(&plane, 3_600_000);
    *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
        id: "comment/5".to_owned(),
        event: "issue_comment".to_owned(),
        payload: comment(5, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    }];
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 0, "the control: nobody asks");
    refuse_webhook(&plane).await;
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 1);
    assert_eq!(one::<Repository>(&plane, "app").await.status.webhook_refused_at, None);
}

/// It was the first webhook of all, so that no delivery and no cursor tell from when events are missed.
#[tokio::test]
async fn what_a_refused_webhook_was_about_is_looked_for_a_little_before_it() {
    let plane = gitea().await;
    turns(&plane).await;
    later(&plane, 3_600_000);
    let refused = plane.world.now();
    let mut repository = one::<Repository>(&plane, "app").await;
    repository.status.poll_cursor = None;
    repository.status.webhook_refused_at = Some(refused);
    let write = Write::Status(AnyObject::of(&repository).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    turns(&plane).await;
    let asked = plane.world.forge.asked_since.lock().unwrap().clone();
    let [None, Some(since)] = &asked[..] else { panic!("it is asked twice: {asked:?}") };
    let since: Moment = since.parse().unwrap();
    let before = refused.millis() - since.millis();
    assert!((1..=600_000).contains(&before), "{before}");
}

/// Anybody can send a body that is too large.
#[tokio::test]
async fn refused_webhooks_cause_one_poll_in_five_minutes() {
    for poll_every in [json!({}), json!({ "pollEvery": "1h" })] {
        let plane = stand().await;
        on_gitea(&plane, poll_every).await;
        turns(&plane).await;
        let asked = || plane.world.forge.asked_since.lock().unwrap().len();
        assert_eq!(asked(), 1, "the first look");
        for round in 1..3 {
            refuse_webhook(&plane).await;
            turns(&plane).await;
            assert_eq!(asked(), round, "too soon");
            later(&plane, 300_000);
            turns(&plane).await;
            turns(&plane).await;
            assert_eq!(asked(), round + 1);
        }
        later(&plane, 600_000);
        turns(&plane).await;
        assert_eq!(asked(), 3, "nothing was refused since then");
    }
}

#[tokio::test]
async fn a_refused_webhook_is_asked_for_once_its_forge_answers() {
    let plane = gitea().await;
    turns(&plane).await;
    later(&plane, 600_000);
    *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
    refuse_webhook(&plane).await;
    for _ in 0..3 {
        plane.advance().await;
        later(&plane, 60_000);
    }
    let asked = || plane.world.forge.asked_since.lock().unwrap().len();
    assert_eq!(asked(), 1, "the first look");
    *plane.world.forge.problem.lock().unwrap() = None;
    later(&plane, 600_000);
    turns(&plane).await;
    let found = asked();
    assert!(found > 1, "{found}");
    later(&plane, 600_000);
    turns(&plane).await;
    assert_eq!(asked(), found, "nothing was refused since then");
}

/// Somebody wrote it before anybody declared what to do about it.
#[tokio::test]
async fn what_happened_before_a_rule_existed_does_not_start_it() {
    let plane = gitea().await;
    let before = plane.world.now();
    later(&plane, 60_000);
    rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let polled = |id: u64, at: Moment| PolledEvent {
        id: format!("comment/{id}"),
        event: "issue_comment".to_owned(),
        payload: comment(id, "acme", "@bailiwick mend it"),
        at,
    };
    // The first poll only begins.
    turns(&plane).await;
    *plane.world.forge.activity.lock().unwrap() = vec![polled(4, before)];
    let plane = restarted(&plane);
    turns(&plane).await;
    assert_eq!(all::<WebhookDelivery>(&plane).await.len(), 1, "it is found");
    assert_eq!(created(&plane, "answer").await, 0);
    let since = plane.world.now();
    *plane.world.forge.activity.lock().unwrap() = vec![polled(5, since)];
    let plane = restarted(&plane);
    turns(&plane).await;
    assert_eq!(created(&plane, "answer").await, 1);
}

#[tokio::test]
async fn a_start_while_the_forge_is_away_catches_up_later() {
    let plane = gitea().await;
    rule(&plane, "answer", |spec| spec["sources"] = json!(["issue-comment"])).await;
    let words = comment(4, "acme", "@bailiwick mend it");
    arrive(&plane, "a", ForgeKind::Gitea, "issue_comment", &words).await;
    turns(&plane).await;
    *plane.world.forge.problem.lock().unwrap() = Some(AccountProblem::TokenRejected);
    *plane.world.forge.activity.lock().unwrap() = vec![PolledEvent {
        id: "comment/5".to_owned(),
        event: "issue_comment".to_owned(),
        payload: comment(5, "acme", "@bailiwick mend it"),
        at: plane.world.now(),
    }];
    let plane = restarted(&plane);
    for _ in 0..3 {
        plane.advance().await;
        later(&plane, DAY);
    }
    assert_eq!(created(&plane, "answer").await, 1);
    let conditions = one::<Repository>(&plane, "app").await.status.conditions;
    let of = |kind| conditions.iter().find(|one| one.kind == kind).unwrap();
    let account = of(ConditionType::AccountSufficient);
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
        later(&plane, DAY);
    }
    assert_eq!(created(&plane, "answer").await, 2);
    let conditions = one::<Repository>(&plane, "app").await.status.conditions;
    let of = |kind| conditions.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(of(ConditionType::AccountSufficient).status, Standing::True);
    assert_eq!(of(ConditionType::ActorRightsKnown).reason, Reason::ActorRightsUnreadable);
    assert_eq!(of(ConditionType::Ready).status, Standing::True);
}

/// Commits that only the forge can give are waited for as well.
#[tokio::test]
async fn a_commit_that_the_account_must_not_fetch_is_waited_for() {
    let plane = gitea().await;
    rule(&plane, "mend", |_| {}).await;
    let fault = ForgeError::from(AccountProblem::TokenRejected);
    let refused = || Err(fault.clone().into());
    let said = VecDeque::from([refused(), refused(), Ok(Some(sha('a')))]);
    plane.world.commits.lock().unwrap().insert(sha('a'), said);
    let real = pushed("refs/heads/main", &sha('b'), &sha('a'));
    arrive(&plane, "a", ForgeKind::Gitea, "push", &real).await;
    for _ in 0..3 {
        assert_eq!(created(&plane, "mend").await, 0);
        plane.advance().await;
        later(&plane, DAY);
    }
    turns(&plane).await;
    assert_eq!(created(&plane, "mend").await, 1);
}
