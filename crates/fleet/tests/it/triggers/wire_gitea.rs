//! Every source that Gitea and Forgejo can deliver.

use bailiwick_fleet::triggers::SourceEvent;
use bailiwick_resources::{EventSource, ForgeKind, TrustTier};
use serde_json::{Value, json};

use super::{NOTHING, OTHER_SHA, SHA, pull_request, sent, sources};

fn read(event: &str, payload: Value) -> Vec<SourceEvent> {
    super::read(ForgeKind::Gitea, event, &sent(payload))
}

#[test]
fn pushes_and_tags() {
    let push = |reference: &str, after: &str| {
        json!({ "ref": reference, "before": OTHER_SHA, "after": after, "total_commits": 1,
            "commits": [{ "id": SHA, "added": [], "removed": [], "modified": ["src/a.rs"] }] })
    };
    let event = &read("push", push("refs/heads/main", SHA))[0];
    assert_eq!((event.source, event.branch.as_deref()), (EventSource::Push, Some("main")));
    assert_eq!(event.changed_paths.as_ref().unwrap(), &["src/a.rs"]);
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    assert_eq!(read("push", push("refs/tags/v2", SHA))[0].source, EventSource::Tag);
    assert_eq!(sources(&read("push", push("refs/heads/x", NOTHING))), [EventSource::Webhook]);

    let mut cut = push("refs/heads/main", SHA);
    cut["total_commits"] = 40.into();
    assert_eq!(read("push", cut)[0].changed_paths, None, "39 commits were not named");

    let create = json!({ "ref": "v2", "ref_type": "tag", "sha": SHA });
    let event = &read("create", create)[0];
    assert_eq!((event.source, event.sha.as_deref()), (EventSource::Tag, Some(SHA)));
}

#[test]
fn comments_on_issues_and_pull_requests() {
    let comment = json!({ "id": 4, "body": "@bailiwick look", "user": { "login": "alice" } });
    let issue = json!({ "number": 3, "title": "Broken", "body": "", "labels": [],
        "user": { "login": "alice" } });
    let payload = json!({ "action": "created", "issue": issue, "comment": comment,
        "is_pull": false });
    let event = &read("issue_comment", payload.clone())[0];
    assert_eq!((event.source, event.issue), (EventSource::IssueComment, Some(3)));
    assert_eq!(event.trust_tier, TrustTier::Untrusted, "Gitea does not say what alice is");

    let mut on_pull = payload.clone();
    on_pull["is_pull"] = true.into();
    on_pull["pull_request"] = pull_request("acme/app");
    let event = &read("pull_request_comment", on_pull)[0];
    assert_eq!((event.source, event.pull_request), (EventSource::PrComment, Some(7)));
    assert_eq!(event.body.as_deref(), Some("@bailiwick look"));

    let mut by_owner = payload;
    by_owner["sender"] = json!({ "login": "acme" });
    by_owner["comment"]["user"] = json!({ "login": "acme" });
    assert_eq!(read("issue_comment", by_owner)[0].trust_tier, TrustTier::Trusted);
}

#[test]
fn reviews() {
    for (header, verdict) in [
        ("pull_request_approved", "approved"),
        ("pull_request_rejected", "changes_requested"),
        ("pull_request_comment", "commented"),
        ("pull_request_review_rejected", "changes_requested"),
    ] {
        let payload = json!({ "action": "reviewed", "pull_request": pull_request("acme/app"),
            "review": { "type": header, "content": "Please mend." } });
        let event = &read(header, payload)[0];
        assert_eq!(event.source, EventSource::PrComment, "{header}");
        assert_eq!(event.conclusion.as_deref(), Some(verdict), "{header}");
        assert_eq!(event.body.as_deref(), Some("Please mend."));
    }
}

#[test]
fn labels() {
    let issue = json!({ "action": "label_updated", "issue": { "number": 3,
        "labels": [{ "name": "agent" }, { "name": "bug" }] } });
    let event = &read("issues", issue.clone())[0];
    assert_eq!(event.source, EventSource::Label);
    assert_eq!(event.labels, ["agent", "bug"]);
    assert_eq!(read("issue_label", issue)[0].source, EventSource::Label);

    let pull = json!({ "action": "label_cleared", "pull_request": pull_request("acme/app") });
    assert_eq!(read("pull_request_label", pull)[0].source, EventSource::Label);
    let opened = json!({ "action": "opened", "pull_request": pull_request("acme/app") });
    assert_eq!(sources(&read("pull_request", opened)), [EventSource::Webhook]);
}

#[test]
fn workflows_jobs_and_statuses_are_ci() {
    let run = json!({ "action": "completed", "workflow": { "name": "CI" }, "workflow_run": {
        "path": "ci.yml@refs/heads/main", "head_branch": "main", "head_sha": SHA,
        "conclusion": "failure", "head_repository": { "full_name": "acme/app" },
        "pull_requests": null } });
    let event = &read("workflow_run", run)[0];
    assert_eq!((event.source, event.workflow.as_deref()), (EventSource::Ci, Some("CI")));
    assert_eq!(event.trust_tier, TrustTier::Trusted);

    let job = json!({ "action": "completed", "workflow_job": { "id": 5, "name": "test",
        "head_branch": "main", "head_sha": SHA, "conclusion": "failure", "steps": null } });
    let event = &read("workflow_job", job)[0];
    assert_eq!((event.source, event.job.as_deref()), (EventSource::Ci, Some("test")));

    let status = json!({ "sha": SHA, "state": "failure", "context": "ci/build",
        "commit": { "id": SHA } });
    let event = &read("status", status)[0];
    assert_eq!((event.source, event.check.as_deref()), (EventSource::Ci, Some("ci/build")));
    assert_eq!(event.trust_tier, TrustTier::Untrusted, "it may be a fork's commit");
}

#[test]
fn an_unknown_event_is_kept_as_an_untrusted_webhook() {
    let events = read("wiki", json!({ "action": "created", "page": "Home" }));
    assert_eq!(sources(&events), [EventSource::Webhook]);
    assert_eq!(events[0].trust_tier, TrustTier::Untrusted);
}
