//! Reading any payload ends with events or an error.

use bailiwick_fleet::triggers::{Delivery, WireError, wire};
use bailiwick_resources::{ForgeKind, TrustTier};
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

use super::{NOTHING, OTHER_SHA, SHA, now, pull_request, sent, try_read};

const EVENTS: [&str; 20] = [
    "push",
    "create",
    "issues",
    "issue_label",
    "pull_request",
    "pull_request_label",
    "issue_comment",
    "pull_request_comment",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_approved",
    "check_run",
    "check_suite",
    "workflow_run",
    "workflow_job",
    "status",
    "repository_dispatch",
    "ping",
    "",
    "\u{0}\u{202e}",
];

/// A payload with the fields of all events.
fn full_payload() -> Value {
    sent(json!({
        "action": "created", "ref": "refs/heads/main", "before": OTHER_SHA, "after": SHA,
        "ref_type": "tag", "sha": SHA, "state": "failure", "context": "ci",
        "commits": [{ "added": ["a"], "removed": [], "modified": [] }], "total_commits": 1,
        "branches": [{ "name": "main" }], "branch": "main", "is_pull": false,
        "pusher": { "name": "alice" }, "label": { "name": "x" },
        "issue": { "number": 3, "labels": [], "user": { "login": "alice" } },
        "comment": { "body": "hi", "user": { "login": "alice" }, "author_association": "OWNER" },
        "review": { "state": "approved", "body": "ok", "content": "ok", "user": { "login": "b" } },
        "pull_request": pull_request("acme/app"),
        "check_run": { "id": 1, "name": "n", "head_sha": SHA, "check_suite": {}, "pull_requests": [] },
        "check_suite": { "head_sha": SHA, "head_branch": "main" },
        "workflow_run": { "head_sha": SHA, "head_repository": { "full_name": "acme/app" } },
        "workflow_job": { "id": 1, "name": "n", "head_sha": SHA, "steps": [{ "name": "s" }] },
        "bailiwick": { "source": "ci", "sha": SHA },
    }))
}

/// Changes one random value at any depth.
fn change_random_value(value: &mut Value, random: &mut Random) {
    let children: Vec<String> = match value {
        Value::Object(fields) => fields.keys().cloned().collect(),
        Value::Array(items) if !items.is_empty() => {
            let index = random.below(items.len());
            return change_random_value(&mut items[index], random);
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Vec::new()
        }
    };
    if !children.is_empty() && !random.once_in(4) {
        let key = &children[random.below(children.len())];
        return change_random_value(&mut value[key], random);
    }
    let others = [
        Value::Null,
        json!([]),
        json!({}),
        json!(-1),
        json!(1.5e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{202e}refs/heads/../../x"),
        json!("A".repeat(70_000)),
        json!([[[[{}]]]]),
        json!(NOTHING),
        json!(true),
    ];
    *value = others[random.below(others.len())].clone();
}

#[test]
fn random_changes_never_crash_the_reader() {
    let mut random = Random::rotating("hostile payloads");
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let mut payload = full_payload();
        for _ in 0..=random.below(3) {
            change_random_value(&mut payload, &mut random);
        }
        let event = EVENTS[random.below(EVENTS.len())];
        for forge in [ForgeKind::Github, ForgeKind::Gitea, ForgeKind::Generic] {
            match try_read(forge, event, &payload) {
                Ok(events) => {
                    assert!((0..=2).contains(&events.len()));
                    assert!(
                        events
                            .iter()
                            .all(|event| event.repository.eq_ignore_ascii_case("acme/app"))
                    );
                    // A commit of another repository is never trusted.
                    let fork = |head: &String| !head.eq_ignore_ascii_case("acme/app");
                    for event in events {
                        let forked = event.head_repository.as_ref().is_some_and(fork);
                        assert!(!(forked && event.trust_tier == TrustTier::Trusted));
                    }
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 500 && refused > 100, "{read} read, {refused} refused: both must happen");
}

#[test]
fn every_event_reads_a_payload_with_all_fields() {
    for event in EVENTS {
        for forge in [ForgeKind::Github, ForgeKind::Gitea, ForgeKind::Generic] {
            assert!(try_read(forge, event, &full_payload()).is_ok(), "{forge:?} {event}");
        }
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = Random::rotating("random bytes");
    let delivery = Delivery {
        forge: ForgeKind::Github,
        id: "d",
        event: "push",
        repository: "acme/app",
        name: "whd-1",
        received_at: now(),
    };
    for _ in 0..2_000 {
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.number().to_le_bytes()[0]).collect();
        assert!(wire::read(&delivery, &bytes).is_err());
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(wire::read(&delivery, deep.as_bytes()), Err(WireError::NoJson { .. })));
    let large = vec![b' '; wire::MAX_PAYLOAD_BYTES + 1];
    assert!(matches!(wire::read(&delivery, &large), Err(WireError::TooLarge { .. })));
    for form in ["payload=", "payload=%7B", "other=%7B%7D", "payload=%7B%7D"] {
        assert!(wire::read(&delivery, form.as_bytes()).is_err(), "{form}");
    }
}

/// The default content type of GitHub.
#[test]
fn form_payload_equals_its_json_payload() {
    let delivery = Delivery {
        forge: ForgeKind::Github,
        id: "d",
        event: "push",
        repository: "acme/app",
        name: "whd-1",
        received_at: now(),
    };
    let push = json!({
        "ref": "refs/heads/main", "before": OTHER_SHA, "after": SHA,
        "repository": { "id": 1, "full_name": "acme/app" }, "sender": { "login": "bob" },
        "head_commit": { "id": SHA, "message": "100 % + & = \u{fc}" }, "commits": [],
    });
    let json = wire::read(&delivery, push.to_string().as_bytes()).unwrap();
    assert!(!json.is_empty(), "positive control");
    let mut form = form_urlencoded::Serializer::new(String::new());
    let form = form.append_pair("payload", &push.to_string()).finish();
    assert_eq!(wire::read(&delivery, form.as_bytes()).unwrap(), json);
}

#[test]
fn repository_without_a_forge_accepts_no_delivery() {
    assert_eq!(try_read(ForgeKind::Local, "push", &full_payload()), Err(WireError::NoForge));
}
