//! Which events are caused by our own runs.

use bailiwick_fleet::triggers::own_work::attempt_of;
use bailiwick_fleet::triggers::{EventContext, Intent, OwnWork, SourceEvent, evaluate};
use bailiwick_resources::{EventSource, ForgeKind, Resource as _};
use serde_json::{Value, json};

use super::{SHA, failed_check, now, pull_request, read, rule, seen, sent};

/// Why a rule with these sources refuses the first event; `None` if it starts a run.
fn refused(events: &[SourceEvent], sources: &[&str], depth: u32, own: u32) -> Option<String> {
    let rule = rule(|spec| {
        spec["sources"] = json!(sources);
        spec["promptTemplate"] = "Look.".into();
        spec["allowLabelDispatch"] = true.into();
        spec["ownWorkDepth"] = depth.into();
    });
    let mut world = seen();
    let run = || "adr-before".to_owned();
    world.own_work = (own > 0).then(|| OwnWork { run: run(), depth: own });
    let planned = evaluate(events, &[rule], &world, Intent::Deliver, now()).swap_remove(0);
    let caused_by = planned.execution.source_refs.caused_by.clone();
    assert_eq!(caused_by, (own > 0).then(run));
    planned.run.is_none().then_some(planned.execution.reason)
}

fn comment(login: &str, body: &str) -> Vec<SourceEvent> {
    let comment_json =
        json!({ "body": body, "user": { "login": login }, "author_association": "OWNER" });
    let payload = sent(json!({
        "action": "created", "pull_request": pull_request("acme/app"), "comment": comment_json,
    }));
    read(ForgeKind::Github, "pull_request_review_comment", &payload)
}

#[test]
fn own_comments_start_nothing_for_any_source() {
    let marked = "done <!-- bailiwick:0f -->";
    for sources in [["pr-comment"], ["webhook"]] {
        assert_eq!(refused(&comment("alice", "look"), &sources, 0, 0), None, "positive control");
        for body in ["done", marked] {
            let why = refused(&comment("bailiwick-bot", body), &sources, 0, 0).unwrap();
            assert!(why.starts_with("OwnAccount: "), "{why}");
        }
        // A setting can allow people who share the bot's account. Text of the bot itself never starts a run.
        assert_eq!(refused(&comment("bailiwick-bot", "look"), &sources, 1, 0), None);
        let why = refused(&comment("bailiwick-bot", marked), &sources, 8, 0).unwrap();
        assert!(why.starts_with("OwnAccount: "), "{why}");
    }
}

#[test]
fn issue_opened_by_a_run_starts_nothing() {
    let opened = |login: &str, body: &str| {
        let user = json!({ "login": login });
        let issue = json!({
            "number": 9, "title": "Two flaky tests", "body": body, "user": user,
            "author_association": "OWNER",
        });
        let payload = sent(json!({ "action": "opened", "issue": issue, "sender": user }));
        read(ForgeKind::Github, "issues", &payload)
    };
    let marked = "Both wait. <!-- bailiwick:0f -->";
    let why = refused(&opened("bailiwick-bot", marked), &["webhook"], 8, 0).unwrap();
    assert!(why.starts_with("OwnAccount: "), "{why}");
    // Positive control: a person's issue starts a run, even with a copied marker.
    let why = refused(&opened("alice", marked), &["webhook"], 0, 0).unwrap_or_default();
    assert!(!why.starts_with("OwnAccount"), "{why}");
}

#[test]
fn copied_marker_does_not_block_a_rule() {
    let marked = "done <!-- bailiwick:0f -->";
    for sources in [["pr-comment"], ["webhook"]] {
        assert_eq!(refused(&comment("alice", marked), &sources, 0, 0), None);
    }
    // A pull request of a run has our marker in its text; actions of people on it still start runs.
    let mut ours = pull_request("acme/app");
    ours["body"] = marked.into();
    let label = sent(json!({ "action": "labeled", "label": { "name": "agent" },
        "pull_request": ours }));
    let events = read(ForgeKind::Github, "pull_request", &label);
    assert_eq!(refused(&events, &["label"], 0, 0), None);
}

#[test]
fn marker_counts_while_our_account_is_unknown() {
    let rule = rule(|spec| spec["sources"] = json!(["pr-comment"]));
    let world = EventContext { own_accounts: Vec::new(), ..seen() };
    let decide = |body: &str| {
        let events = comment("alice", body);
        evaluate(&events, std::slice::from_ref(&rule), &world, Intent::Deliver, now())
            .swap_remove(0)
            .execution
            .reason
    };
    assert!(decide("done <!-- bailiwick:0f -->").starts_with("OwnAccount: "));
    assert!(!decide("done").starts_with("OwnAccount: "), "positive control");
}

#[test]
fn chain_of_own_work_ends_at_the_depth_of_the_rule() {
    for depth in 0..4 {
        for own in 0..5 {
            let why = refused(&[failed_check()], &["ci"], depth, own);
            assert_eq!(why.is_none(), own <= depth, "depth {own} with a limit of {depth}: {why:?}");
            assert!(why.is_none_or(|why| why.starts_with("OwnWork: ")));
        }
    }
    let mut rule = rule(|_| {});
    assert_eq!(rule.spec.faults(), []);
    rule.spec.own_work_depth = 9;
    assert_eq!(rule.spec.faults().len(), 1, "the depth has a maximum");
}

#[test]
fn manual_and_scheduled_events_are_never_own_work() {
    for source in [EventSource::Schedule, EventSource::Manual] {
        let mut event = failed_check();
        (event.source, event.telling) = (source, source);
        event.actor = Some("bailiwick-bot".to_owned());
        let schedule = json!({ "cron": "0 0 * * *", "repository": "acme/app" });
        let rule = rule(|spec: &mut Value| {
            spec["sources"] = json!([source.as_str()]);
            if source == EventSource::Schedule {
                spec["schedule"] = schedule;
            }
        });
        let planned = evaluate(&[event], &[rule], &seen(), Intent::Deliver, now());
        assert!(planned[0].run.is_some(), "{}", planned[0].execution.reason);
    }
}

#[test]
fn own_statuses_start_nothing() {
    let status = |context: &str| {
        let payload = sent(json!({ "sha": SHA, "state": "failure", "context": context,
            "branches": [{ "name": "main" }] }));
        read(ForgeKind::Github, "status", &payload)
    };
    assert_eq!(refused(&status("ci/build"), &["ci"], 0, 0), None, "positive control");
    let why = refused(&status("bailiwick/fixer"), &["ci"], 8, 0).unwrap();
    assert!(why.starts_with("OwnWork: "), "{why}");
}

#[test]
fn only_a_branch_of_a_run_names_an_attempt() {
    assert_eq!(attempt_of("agent/ada-1-1"), Some("ada-1-1"));
    for other in ["agent/", "agent", "agents/ada-1-1", "agent/a/b", "main"] {
        assert_eq!(attempt_of(other), None, "{other}");
    }
}
