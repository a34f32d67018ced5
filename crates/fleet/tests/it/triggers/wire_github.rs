//! Every event that GitHub can deliver, with payloads as documented.

use bailiwick_resources::{EventSource, ForgeKind, TrustTier};
use serde_json::{Value, json};

use super::{NOTHING, OTHER_SHA, SHA, pull_request, sent, sources};

fn read(event: &str, payload: Value) -> Vec<bailiwick_fleet::triggers::SourceEvent> {
    super::read(ForgeKind::Github, event, &sent(payload))
}

#[test]
fn check_run_is_ci_and_a_webhook() {
    let events = read(
        "check_run",
        json!({
            "action": "completed",
            "check_run": {
                "id": 55, "name": "build", "head_sha": SHA, "conclusion": "failure",
                "check_suite": { "head_branch": "mend" },
                "pull_requests": [{
                    "number": 7,
                    "head": { "ref": "mend", "sha": SHA,
                              "repo": { "id": 1, "url": "https://api.github.com/repos/acme/app" } },
                    "base": { "ref": "main", "sha": OTHER_SHA, "repo": { "id": 1 } },
                }],
            },
        }),
    );
    assert_eq!(sources(&events), [EventSource::Ci, EventSource::Webhook]);
    let event = &events[0];
    assert_eq!(event.check.as_deref(), Some("build"));
    assert_eq!(event.conclusion.as_deref(), Some("failure"));
    assert_eq!(event.pull_request, Some(7));
    assert_eq!(event.sha.as_deref(), Some(SHA));
    assert_eq!(event.base_sha.as_deref(), Some(OTHER_SHA));
    assert_eq!(event.job_id.as_deref(), Some("55"));
    assert_eq!(event.trust_tier, TrustTier::Trusted, "{:?}", event.distrust);
    assert_eq!(event.source_refs.webhook_delivery.as_deref(), Some("whd-1"));
    assert_eq!(events[1].trust_tier, TrustTier::Trusted);
    assert_eq!(events[0].uid, events[1].uid, "one delivery is one event");
}

#[test]
fn suites_runs_jobs_and_statuses_are_ci() {
    let suite = json!({ "action": "completed", "check_suite": {
        "head_branch": "main", "head_sha": SHA, "conclusion": "failure",
        "app": { "name": "Builder" }, "pull_requests": [] } });
    let event = &read("check_suite", suite)[0];
    assert_eq!((event.source, event.check.as_deref()), (EventSource::Ci, None));

    let run = json!({ "action": "completed", "workflow": { "name": "CI" }, "workflow_run": {
        "name": "CI", "head_branch": "main", "head_sha": SHA, "conclusion": "failure",
        "actor": { "login": "bob" }, "head_repository": { "full_name": "acme/app" },
        "pull_requests": [] } });
    let event = &read("workflow_run", run)[0];
    assert_eq!((event.source, event.workflow.as_deref()), (EventSource::Ci, Some("CI")));
    assert_eq!(event.actor.as_deref(), Some("bob"));
    assert_eq!(event.trust_tier, TrustTier::Trusted);

    let job = json!({ "action": "completed", "workflow_job": {
        "id": 9, "name": "test", "workflow_name": "CI", "head_branch": "main", "head_sha": SHA,
        "conclusion": "failure",
        "steps": [{ "name": "set up", "conclusion": "success" },
                  { "name": "cargo test", "conclusion": "failure" },
                  { "name": "upload", "conclusion": "skipped" }] } });
    let event = &read("workflow_job", job)[0];
    assert_eq!(event.source, EventSource::Ci);
    assert_eq!(event.job.as_deref(), Some("test"));
    assert_eq!(event.step.as_deref(), Some("cargo test"));

    let status = json!({ "sha": SHA, "state": "failure", "context": "ci/build",
        "branches": [{ "name": "main" }] });
    let event = &read("status", status)[0];
    assert_eq!((event.source, event.check.as_deref()), (EventSource::Ci, Some("ci/build")));
    assert_eq!(event.conclusion.as_deref(), Some("failure"));
}

#[test]
fn comment_belongs_to_an_issue_or_a_pull_request() {
    let comment = |issue: Value| {
        json!({ "action": "created", "issue": issue, "comment": {
            "body": "@bailiwick help", "user": { "login": "alice" },
            "author_association": "OWNER" } })
    };
    let issue = json!({ "number": 3, "title": "Broken", "body": "It is.", "labels": [],
        "user": { "login": "zoe" }, "author_association": "NONE" });
    let events = read("issue_comment", comment(issue.clone()));
    assert_eq!(sources(&events), [EventSource::IssueComment, EventSource::Webhook]);
    assert_eq!(events[0].issue, Some(3));
    assert_eq!(events[0].body.as_deref(), Some("@bailiwick help"));
    assert_eq!(events[0].trust_tier, TrustTier::Trusted, "the commenter counts, not the author");

    let mut on_pull_request = issue;
    on_pull_request["pull_request"] = json!({ "url": "https://api.github.com/…/pulls/3" });
    let events = read("issue_comment", comment(on_pull_request));
    assert_eq!(events[0].source, EventSource::PrComment);
    assert_eq!((events[0].pull_request, events[0].issue), (Some(3), None));
}

#[test]
fn edited_or_deleted_comment_is_only_a_webhook() {
    for action in ["edited", "deleted"] {
        let payload = json!({ "action": action, "issue": { "number": 3 }, "comment": {
            "body": "@bailiwick", "user": { "login": "alice" }, "author_association": "OWNER" } });
        assert_eq!(sources(&read("issue_comment", payload)), [EventSource::Webhook], "{action}");
    }
}

#[test]
fn reviews_and_their_comments_are_pull_request_comments() {
    let review = json!({ "action": "submitted", "pull_request": pull_request("acme/app"),
        "review": { "state": "changes_requested", "body": "No.", "user": { "login": "bob" },
                    "author_association": "MEMBER" } });
    let event = &read("pull_request_review", review)[0];
    assert_eq!(event.source, EventSource::PrComment);
    assert_eq!(event.conclusion.as_deref(), Some("changes_requested"));
    assert_eq!((event.body.as_deref(), event.actor.as_deref()), (Some("No."), Some("bob")));

    let comment = json!({ "action": "created", "pull_request": pull_request("acme/app"),
        "comment": { "body": "Why?", "user": { "login": "bob" }, "author_association": "MEMBER" } });
    let event = &read("pull_request_review_comment", comment)[0];
    assert_eq!((event.source, event.pull_request), (EventSource::PrComment, Some(7)));
    assert_eq!(event.sha.as_deref(), Some(SHA));
}

#[test]
fn labels_on_issues_and_pull_requests_are_label_events() {
    let issue = json!({ "action": "labeled", "label": { "name": "agent" },
        "issue": { "number": 3, "labels": [{ "name": "agent" }, { "name": "bug" }] } });
    let event = &read("issues", issue)[0];
    assert_eq!((event.source, event.labels.clone()), (EventSource::Label, vec!["agent".into()]));

    let removed = json!({ "action": "unlabeled", "label": { "name": "agent" },
        "pull_request": pull_request("acme/app") });
    let event = &read("pull_request", removed)[0];
    assert_eq!((event.source, event.action.as_deref()), (EventSource::Webhook, Some("unlabeled")));

    let opened = json!({ "action": "opened", "pull_request": pull_request("acme/app") });
    let events = read("pull_request", opened);
    assert_eq!(sources(&events), [EventSource::Webhook]);
    assert_eq!(events[0].labels, ["bug"], "the labels of the pull request are kept");
}

#[test]
fn push_creates_updates_or_deletes_a_branch_or_tag() {
    let push = |reference: &str, after: &str| {
        json!({ "ref": reference, "before": OTHER_SHA, "after": after, "pusher": { "name": "alice" },
            "commits": [{ "added": ["a.rs"], "removed": [], "modified": ["b.rs"] },
                        { "added": [], "removed": ["c.rs"], "modified": ["b.rs"] }] })
    };
    let event = &read("push", push("refs/heads/main", SHA))[0];
    assert_eq!((event.source, event.branch.as_deref()), (EventSource::Push, Some("main")));
    assert_eq!(event.changed_paths.as_ref().unwrap(), &["a.rs", "b.rs", "c.rs"]);
    assert_eq!(event.trust_tier, TrustTier::Trusted);

    let event = &read("push", push("refs/tags/v1.0", SHA))[0];
    assert_eq!((event.source, event.tag.as_deref()), (EventSource::Tag, Some("v1.0")));

    let events = read("push", push("refs/heads/gone", NOTHING));
    assert_eq!(sources(&events), [EventSource::Webhook]);
    assert_eq!(events[0].sha, None, "a deleted branch has no commit");

    let mut first = push("refs/heads/new", SHA);
    first["before"] = NOTHING.into();
    assert_eq!(
        read("push", first)[0].changed_paths,
        None,
        "a new branch has no base to compare with"
    );
}

#[test]
fn created_tag_is_a_tag_and_created_branch_is_a_webhook() {
    let create = |kind: &str| json!({ "ref": "v1.0", "ref_type": kind, "master_branch": "main" });
    let event = &read("create", create("tag"))[0];
    assert_eq!((event.source, event.tag.as_deref()), (EventSource::Tag, Some("v1.0")));
    assert_eq!(event.sha, None);
    assert_eq!(sources(&read("create", create("branch"))), [EventSource::Webhook]);
}

#[test]
fn repository_dispatch_keeps_its_payload() {
    let payload = json!({ "action": "nightly", "branch": "main",
        "client_payload": { "depth": "full" } });
    let event = &read("repository_dispatch", payload)[0];
    assert_eq!(event.source, EventSource::RepositoryDispatch);
    assert_eq!(event.action.as_deref(), Some("nightly"));
    assert_eq!(event.payload["client_payload"]["depth"], "full");
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    let stored = serde_json::to_string(event).unwrap();
    let restored: bailiwick_fleet::triggers::SourceEvent = serde_json::from_str(&stored).unwrap();
    assert_eq!(&restored, event, "an event can be stored and read again");
}

#[test]
fn unknown_event_is_an_untrusted_webhook() {
    let events = read("star", json!({ "action": "created", "starred_at": null }));
    assert_eq!(sources(&events), [EventSource::Webhook]);
    assert_eq!(events[0].event, "star");
    assert_eq!(events[0].trust_tier, TrustTier::Untrusted);
}
