//! Webhooks of any sender that has the secret.

use bailiwick_fleet::triggers::{SourceEvent, WireError};
use bailiwick_resources::{EventSource, ForgeKind, TrustTier};
use serde_json::{Value, json};

use super::{SHA, sources, try_read};

fn read(payload: &Value) -> Result<Vec<SourceEvent>, WireError> {
    try_read(ForgeKind::Generic, "alert", payload)
}

#[test]
fn any_json_is_a_webhook() {
    for payload in [json!({ "level": "high" }), json!([1, 2]), json!("text"), json!(null)] {
        let events = read(&payload).unwrap();
        assert_eq!(sources(&events), [EventSource::Webhook]);
        assert_eq!((events[0].event.as_str(), &*events[0].payload), ("alert", &payload));
        assert_eq!(events[0].repository, "acme/app");
        assert_eq!(events[0].trust_tier, TrustTier::Untrusted);
    }
}

#[test]
fn sender_can_set_the_source_and_its_fields() {
    for source in
        ["ci", "issue-comment", "pr-comment", "label", "push", "tag", "repository-dispatch"]
    {
        let payload = json!({ "bailiwick": { "source": source, "sha": SHA, "branch": "main",
            "check": "build", "conclusion": "failure", "trust": "trusted" } });
        let events = read(&payload).unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].source.as_str(), source);
        assert_eq!(events[0].check.as_deref(), Some("build"));
        assert_eq!(events[0].trust_tier, TrustTier::Trusted, "{source} {:?}", events[0].distrust);
    }
}

#[test]
fn schedule_and_manual_events_cannot_be_sent() {
    for source in ["schedule", "manual"] {
        let error = read(&json!({ "bailiwick": { "source": source } })).unwrap_err();
        assert!(error.to_string().contains("cannot be sent"), "{error}");
    }
}

#[test]
fn sender_cannot_make_a_fork_trusted() {
    for head in [json!("mallory/app"), json!(null)] {
        let payload = json!({ "bailiwick": { "source": "ci", "pullRequest": 7, "sha": SHA,
            "headRepository": head, "trust": "trusted" } });
        assert_eq!(read(&payload).unwrap()[0].trust_tier, TrustTier::Untrusted);
    }
    let own = json!({ "bailiwick": { "source": "ci", "pullRequest": 7, "sha": SHA,
        "headRepository": "acme/app", "trust": "trusted" } });
    assert_eq!(read(&own).unwrap()[0].trust_tier, TrustTier::Trusted);
}

#[test]
fn unknown_bailiwick_keys_are_errors() {
    let error = read(&json!({ "bailiwick": { "sourc": "ci" } })).unwrap_err();
    assert!(error.to_string().contains("sourc"), "{error}");
}
