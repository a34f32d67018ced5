//! From events to plans: payloads of forges, the decisions of rules, and what can go wrong.

mod concurrency;
mod conditions;
mod dedupe;
mod dry_run;
mod hostile_payloads;
mod hostile_text;
mod lifecycle;
mod matcher;
mod own_work;
mod plan;
mod schedule;
mod signature;
mod template;
mod trust;
mod wire_generic;
mod wire_gitea;
mod wire_github;

use bailiwick_fleet::triggers::{Delivery, EventContext, SourceEvent, WireError, wire};
use bailiwick_resources::{
    AgentTriggerRule, EventSource, ForgeKind, Metadata, Moment, Object, TrustTier,
};
use serde_json::{Value, json};

const SHA: &str = "1111111111111111111111111111111111111111";
const OTHER_SHA: &str = "2222222222222222222222222222222222222222";
const NOTHING: &str = "0000000000000000000000000000000000000000";

fn now() -> Moment {
    "2026-11-15T18:00:00Z".parse().unwrap()
}

/// Reads a payload as a delivery to `acme/app`.
fn try_read(forge: ForgeKind, event: &str, payload: &Value) -> Result<Vec<SourceEvent>, WireError> {
    let delivery = Delivery {
        forge,
        id: "d-1",
        event,
        repository: "acme/app",
        name: "whd-1",
        received_at: now(),
    };
    wire::read(&delivery, payload.to_string().as_bytes())
}

fn read(forge: ForgeKind, event: &str, payload: &Value) -> Vec<SourceEvent> {
    try_read(forge, event, payload).unwrap()
}

/// Adds the common fields of every delivery to a payload.
fn sent(mut payload: Value) -> Value {
    let common = json!({
        "repository": { "id": 1, "full_name": "acme/app", "owner": { "login": "acme" } },
        "sender": { "login": "alice" },
    });
    for (key, value) in common.as_object().unwrap() {
        payload.as_object_mut().unwrap().entry(key.clone()).or_insert(value.clone());
    }
    payload
}

fn pull_request(head_repository: &str) -> Value {
    json!({
        "number": 7, "title": "Mend the parser", "body": "It was broken.",
        "user": { "login": "alice" }, "author_association": "OWNER",
        "labels": [{ "name": "bug" }],
        "head": { "ref": "mend", "sha": SHA, "repo": { "full_name": head_repository } },
        "base": { "ref": "main", "sha": OTHER_SHA, "repo": { "full_name": "acme/app" } },
    })
}

/// The sources of the events, the most specific first.
fn sources(events: &[SourceEvent]) -> Vec<EventSource> {
    events.iter().map(|event| event.source).collect()
}

/// A trusted failing check on branch `main`.
fn failed_check() -> SourceEvent {
    let payload = sent(json!({
        "action": "completed",
        "check_run": {
            "id": 55, "name": "build", "head_sha": SHA, "conclusion": "failure",
            "check_suite": { "head_branch": "main" }, "pull_requests": [],
        },
    }));
    let mut event = read(ForgeKind::Github, "check_run", &payload).swap_remove(0);
    // The branch was looked up in our own repository.
    event.learn_branch("main", SHA);
    event
}

/// An active rule for checks, with the given change.
fn rule(change: impl FnOnce(&mut Value)) -> Object<AgentTriggerRule> {
    let mut spec = json!({
        "lifecycleState": "active",
        "sources": ["ci"],
        "agentStack": "mender",
        "taskKind": "diagnose",
        "promptTemplate": "Find out why {{ event.check }} failed at {{ event.sha }}.",
    });
    change(&mut spec);
    let mut metadata = Metadata::named("on-failure");
    metadata.generation = 3;
    Object::new(metadata, serde_json::from_value(spec).unwrap())
}

fn seen() -> EventContext {
    EventContext {
        repository_trust: TrustTier::Trusted,
        default_branch: "main".to_owned(),
        own_accounts: vec!["bailiwick-bot".to_owned()],
        ..EventContext::default()
    }
}
