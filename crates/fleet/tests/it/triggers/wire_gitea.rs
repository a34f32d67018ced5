//! Every source that Gitea and Forgejo can deliver.

use bailiwick_fleet::triggers::{Delivery, LabelChange, SourceEvent, wire};
use bailiwick_resources::{EventSource, ForgeKind, TrustTier};
use serde_json::{Value, json};

use super::{NOTHING, OTHER_SHA, SHA, pull_request, sent, sources};

fn read(event: &str, payload: Value) -> Vec<SourceEvent> {
    super::read(ForgeKind::Gitea, event, &sent(payload))
}

#[test]
fn pushes_and_tags_are_read() {
    let push = |reference: &str, after: &str| {
        json!({ "ref": reference, "before": OTHER_SHA, "after": after, "total_commits": 1,
            "commits": [{ "id": SHA, "added": [], "removed": [], "modified": ["src/a.rs"] }] })
    };
    let event = &read("push", push("refs/heads/main", SHA))[0];
    assert_eq!((event.source, event.branch.as_deref()), (EventSource::Push, Some("main")));
    assert_eq!(event.changed_paths.as_ref().unwrap(), &["src/a.rs"]);
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    assert_eq!(read("push", push("refs/tags/v2", SHA))[0].source, EventSource::Tag);
    // When a person tests the webhook, Gitea sends a push without a change.
    assert_eq!(read("push", push("refs/heads/main", OTHER_SHA)), []);
    assert_eq!(sources(&read("push", push("refs/heads/x", NOTHING))), [EventSource::Webhook]);

    let mut cut = push("refs/heads/main", SHA);
    cut["total_commits"] = 40.into();
    assert_eq!(read("push", cut)[0].changed_paths, None, "39 commits are not listed");

    let create = json!({ "ref": "v2", "ref_type": "tag", "sha": SHA });
    let event = &read("create", create)[0];
    assert_eq!((event.source, event.tag.as_deref()), (EventSource::Tag, Some("v2")));
    assert_eq!(event.sha, None, "it can be the id of an annotated tag");
}

#[test]
fn comments_on_issues_and_pull_requests_are_read() {
    let comment = json!({ "id": 4, "body": "@bailiwick look", "user": { "login": "alice" } });
    let issue = json!({ "number": 3, "title": "Broken", "body": "", "labels": [],
        "user": { "login": "alice" } });
    let payload = json!({ "action": "created", "issue": issue, "comment": comment,
        "is_pull": false });
    let event = &read("issue_comment", payload.clone())[0];
    assert_eq!((event.source, event.issue), (EventSource::IssueComment, Some(3)));
    assert_eq!(
        event.trust_tier,
        TrustTier::Untrusted,
        "Gitea does not send the association of alice"
    );

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

/// The id of an annotated tag is the id of the tag object; its commit is looked up.
#[test]
fn commit_of_an_annotated_tag_is_not_the_id_of_the_tag() {
    let mut push = json!({ "ref": "refs/tags/v2", "before": NOTHING, "after": OTHER_SHA,
        "commits": [], "total_commits": 0, "head_commit": null });
    let event = &read("push", push.clone())[0];
    assert_eq!((event.source, &event.sha), (EventSource::Tag, &None));
    push["head_commit"] = json!({ "id": SHA });
    assert_eq!(read("push", push)[0].sha.as_deref(), Some(SHA));
}

#[test]
fn event_sent_several_times_has_the_same_id() {
    let uid = |id: &str, event: &str, payload: &Value| {
        let delivery = Delivery {
            forge: ForgeKind::Gitea,
            id,
            event,
            repository: "acme/app",
            name: "whd-1",
            received_at: super::now(),
        };
        let payload = sent(payload.clone());
        wire::read(&delivery, payload.to_string().as_bytes()).unwrap()[0].uid.clone()
    };
    let mut comment = json!({ "action": "created", "is_pull": false, "issue": { "number": 3 },
        "comment": { "id": 4, "body": "look", "user": { "login": "alice" },
            "updated_at": "2026-11-17T20:00:00Z" } });
    let first = uid("d-1", "issue_comment", &comment);
    assert_eq!(first, "acme/app/comment/4");
    assert_eq!(uid("d-2", "issue_comment", &comment), first, "it was redelivered");
    comment["comment"]["updated_at"] = "2026-11-17T20:10:00Z".into();
    assert_eq!(uid("poll/4", "issue_comment", &comment), first, "it was edited, and polled");
    comment["action"] = "edited".into();
    let edited = uid("d-3", "issue_comment", &comment);
    assert_ne!(edited, first);
    comment["comment"]["updated_at"] = "2026-11-17T20:20:00Z".into();
    assert_ne!(uid("d-4", "issue_comment", &comment), edited, "it was edited again");

    let pull = |action: &str| json!({ "action": action, "pull_request": pull_request("acme/app") });
    let opened = uid("d-5", "pull_request", &pull("opened"));
    assert_eq!(uid("d-6", "pull_request", &pull("synchronized")), opened, "the same head");
    let mut pushed = pull("synchronized");
    pushed["pull_request"]["head"]["sha"] = OTHER_SHA.into();
    assert_ne!(uid("d-7", "pull_request", &pushed), opened);
    assert_ne!(uid("d-8", "pull_request", &pull("closed")), opened);

    let wiki = json!({ "action": "created", "page": "Home" });
    assert_eq!(uid("d-9", "wiki", &wiki), uid("d-10", "wiki", &wiki));
    assert_ne!(uid("d-9", "wiki", &wiki), uid("d-9", "wiki", &json!({ "action": "edited" })));
    let job = json!({ "action": "completed", "workflow_job": { "id": 5, "name": "test",
        "head_sha": SHA } });
    assert_eq!(uid("poll/5", "workflow_job", &job), "poll/5");
}

#[test]
fn reviews_are_pull_request_comments() {
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
    assert_eq!(
        event.label_change,
        LabelChange::Unknown,
        "Gitea does not send which label was added"
    );
    assert_eq!(read("issue_label", issue)[0].source, EventSource::Label);

    let pull = json!({ "action": "label_cleared", "pull_request": pull_request("acme/app") });
    assert_eq!(sources(&read("pull_request_label", pull)), [EventSource::Webhook]);
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
    assert_eq!(event.trust_tier, TrustTier::Untrusted, "it can be a commit of a fork");
}

#[test]
fn unknown_event_is_an_untrusted_webhook() {
    let events = read("wiki", json!({ "action": "created", "page": "Home" }));
    assert_eq!(sources(&events), [EventSource::Webhook]);
    assert_eq!(events[0].trust_tier, TrustTier::Untrusted);
}
