//! Trust in authors: an unknown author is untrusted.

use bailiwick_fleet::ports::{PullRequestState, Rights};
use bailiwick_fleet::triggers::{Lookup, SourceEvent, WireError, lookups};
use bailiwick_resources::{ForgeKind, Moment, TrustTier};
use serde_json::{Value, json};

use super::{OTHER_SHA, SHA, pull_request, read, rule, sent, try_read};

fn github(event: &str, payload: Value) -> SourceEvent {
    read(ForgeKind::Github, event, &sent(payload)).swap_remove(0)
}

#[test]
fn fork_is_never_trusted_for_any_author() {
    let comment = |head: &str, association: &str| {
        github(
            "pull_request_review_comment",
            json!({ "action": "created", "pull_request": pull_request(head),
                "comment": { "body": "x", "user": { "login": "alice" },
                             "author_association": association } }),
        )
    };
    assert_eq!(comment("acme/app", "OWNER").trust_tier, TrustTier::Trusted);
    for head in ["mallory/app", "acme/app-fork"] {
        let event = comment(head, "OWNER");
        assert_eq!(event.trust_tier, TrustTier::Untrusted);
        assert!(event.distrust.unwrap().contains("fork"));
    }
    for stranger in ["NONE", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "NEW_WORD"] {
        assert_eq!(comment("acme/app", stranger).trust_tier, TrustTier::Untrusted, "{stranger}");
    }
}

#[test]
fn deleted_fork_is_not_trusted() {
    let mut pull = pull_request("mallory/app");
    pull["head"]["repo"] = Value::Null;
    let event = github("pull_request", json!({ "action": "opened", "pull_request": pull }));
    assert_eq!(event.trust_tier, TrustTier::Untrusted);
}

#[test]
fn check_is_trusted_only_if_our_branch_is_at_its_commit() {
    let check = |branch: Value| {
        github(
            "check_run",
            json!({ "action": "completed", "check_run": { "name": "build", "head_sha": SHA,
                "conclusion": "failure", "check_suite": { "head_branch": branch },
                "pull_requests": [] } }),
        )
    };
    let rules = [rule(|_| {})];
    for (head, trust) in [(SHA, TrustTier::Trusted), (OTHER_SHA, TrustTier::Untrusted)] {
        let mut event = check(json!("main"));
        assert_eq!(event.trust_tier, TrustTier::Untrusted, "a fork can have a branch called main");
        assert_eq!(lookups(&event, &rules), [Lookup::Branch(Some("main".to_owned()))]);
        event.learn_branch("main", head);
        assert_eq!(event.trust_tier, trust);
    }
    assert_eq!(check(Value::Null).trust_tier, TrustTier::Untrusted);
    let status = |branches: Value| {
        let payload =
            json!({ "sha": SHA, "state": "failure", "context": "x", "branches": branches });
        github("status", payload)
    };
    assert_eq!(status(json!([{ "name": "main" }])).trust_tier, TrustTier::Trusted);
    assert_eq!(status(json!([])).trust_tier, TrustTier::Untrusted);
}

#[test]
fn label_by_an_unknown_person_is_not_trusted() {
    let labelled = |author: &str| {
        github(
            "issues",
            json!({ "action": "labeled", "label": { "name": "agent" }, "issue": { "number": 3,
                "user": { "login": author }, "author_association": "OWNER" } }),
        )
    };
    assert_eq!(labelled("alice").trust_tier, TrustTier::Trusted);
    let other = labelled("zoe");
    assert_eq!(
        other.trust_tier,
        TrustTier::Untrusted,
        "alice added the label, but zoe is the owner"
    );
}

#[test]
fn looked_up_pull_request_decides_the_trust() {
    let comment = || {
        github(
            "issue_comment",
            json!({ "action": "created",
                "issue": { "number": 7, "pull_request": { "url": "…" } },
                "comment": { "body": "@bailiwick", "user": { "login": "alice" },
                             "author_association": "OWNER" } }),
        )
    };
    let rules = [rule(|spec| spec["sources"] = json!(["pr-comment"]))];
    let mut event = comment();
    assert_eq!(event.trust_tier, TrustTier::Untrusted, "the repository of the commit is unknown");
    assert_eq!(lookups(&event, &rules), [Lookup::PullRequest(7)]);
    let state = |head: Option<&str>| PullRequestState {
        number: 7,
        title: "Mend".to_owned(),
        body: String::new(),
        open: true,
        head_branch: "mend".to_owned(),
        head_sha: SHA.to_owned(),
        head_repository: head.map(str::to_owned),
        base_branch: "main".to_owned(),
        files: vec!["src/a.rs".to_owned()],
    };
    event.learn_pull_request(&state(Some("acme/app")));
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    assert_eq!((event.sha.as_deref(), event.branch.as_deref()), (Some(SHA), Some("mend")));
    assert_eq!(lookups(&event, &rules), []);
    for head in [Some("mallory/app"), None] {
        let mut event = comment();
        event.learn_pull_request(&state(head));
        assert_eq!(event.trust_tier, TrustTier::Untrusted, "{head:?}");
    }
}

/// A member of the organization or a collaborator may have only read rights.
#[test]
fn members_and_collaborators_are_trusted_only_with_write_rights() {
    let rules = [rule(|spec| spec["sources"] = json!(["pr-comment", "label", "webhook"]))];
    let commented = |association: &str| {
        github(
            "pull_request_review_comment",
            json!({ "action": "created", "pull_request": pull_request("acme/app"),
                "comment": { "body": "x", "user": { "login": "alice" },
                             "author_association": association } }),
        )
    };
    let opened = |association: &str| {
        let mut pull = pull_request("acme/app");
        pull["author_association"] = association.into();
        github("pull_request", json!({ "action": "opened", "pull_request": pull }))
    };
    for association in ["MEMBER", "COLLABORATOR"] {
        for event in [commented(association), opened(association)] {
            assert_eq!(event.trust_tier, TrustTier::Untrusted, "{association}: {:?}", event.source);
            let requested = lookups(&event, &rules);
            assert!(
                requested.contains(&Lookup::Permission("alice".to_owned())),
                "{association}: {requested:?}"
            );
            for (rights, trust) in [
                (Rights::Write, TrustTier::Trusted),
                (Rights::Read, TrustTier::Untrusted),
                (Rights::Unknown, TrustTier::Untrusted),
            ] {
                let mut event = event.clone();
                event.learn_rights(rights);
                assert_eq!(event.trust_tier, trust, "{association}, {rights:?}");
            }
        }
    }
}

/// A check names a pull request of ours, but its commit is another one.
#[test]
fn pull_request_makes_only_its_head_commit_trusted() {
    let check = |head: &str| {
        let pull = json!({ "number": 7, "head": { "ref": "mend", "sha": SHA,
            "repo": { "url": "https://api.github.com/repos/acme/app", "name": "app" } } });
        github(
            "check_run",
            json!({ "action": "completed", "check_run": { "name": "build", "head_sha": head,
                "conclusion": "failure", "check_suite": { "head_branch": "mend" },
                "pull_requests": [pull] } }),
        )
    };
    let mut own = check(SHA);
    let mut other = check(OTHER_SHA);
    assert_eq!((own.pull_request, other.pull_request), (Some(7), None));
    assert_eq!(other.trust_tier, TrustTier::Untrusted);
    let state = PullRequestState {
        number: 7,
        title: String::new(),
        body: String::new(),
        open: true,
        head_branch: "mend".to_owned(),
        head_sha: SHA.to_owned(),
        head_repository: Some("acme/app".to_owned()),
        base_branch: "main".to_owned(),
        files: Vec::new(),
    };
    own.learn_pull_request(&state);
    other.learn_pull_request(&state);
    assert_eq!(own.trust_tier, TrustTier::Trusted);
    assert_eq!(other.trust_tier, TrustTier::Untrusted);
}

#[test]
fn commit_at_the_head_of_our_branch_is_trusted() {
    let job = || {
        github(
            "workflow_job",
            json!({ "action": "completed", "workflow_job": { "id": 9, "name": "test",
                "head_branch": "main", "head_sha": SHA, "conclusion": "failure" } }),
        )
    };
    let rules = [rule(|_| {})];
    let mut event = job();
    assert_eq!(lookups(&event, &rules), [Lookup::Branch(Some("main".to_owned()))]);
    event.learn_branch("main", SHA);
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    let mut event = job();
    event.learn_branch("main", OTHER_SHA);
    assert_eq!(event.trust_tier, TrustTier::Untrusted, "a fork can have a branch called main");
}

#[test]
fn webhook_has_the_trust_of_the_event_it_reports() {
    let payload = sent(json!({ "action": "completed", "workflow_job": { "id": 9, "name": "test",
        "head_branch": "main", "head_sha": SHA, "conclusion": "failure" } }));
    for mut event in read(ForgeKind::Github, "workflow_job", &payload) {
        assert_eq!(event.trust_tier, TrustTier::Untrusted);
        event.learn_branch("main", SHA);
        assert_eq!(event.trust_tier, TrustTier::Trusted, "{:?}", event.source);
    }
}

#[test]
fn person_is_trusted_but_not_for_a_fork() {
    let mut event =
        SourceEvent::manual("request-1", Moment::default(), "acme/app", "alice", Value::Null);
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    event.pull_request = Some(7);
    event.head_repository = Some("mallory/app".to_owned());
    event.trust();
    assert_eq!(event.trust_tier, TrustTier::Untrusted);
}

#[test]
fn secret_is_valid_for_its_own_repository_only() {
    for (forge, event) in [(ForgeKind::Github, "star"), (ForgeKind::Gitea, "wiki")] {
        let mut payload = sent(json!({}));
        assert!(try_read(forge, event, &payload).is_ok());
        payload["repository"]["full_name"] = "acme/other".into();
        let error = try_read(forge, event, &payload).unwrap_err();
        assert!(matches!(error, WireError::OtherRepository { .. }), "{error}");
    }
}
