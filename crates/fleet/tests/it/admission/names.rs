//! The names of values in the environment: no name changes a program, and no name has two values.

use bailiwick_fleet::admission::Decision;
use bailiwick_fleet::admission::review::EntryDecision;
use bailiwick_resources::{AnyObject, Kind, Reason};
use serde_json::{Value, json};

use super::world::{World, object};

/// A world in which the tools need these keys of a secret, all granted and mounted as variables.
fn with_keys(keys: &[&str]) -> World {
    let mut world = World::good();
    let mut stored = json!({});
    for key in keys {
        stored[*key] = json!({ "setAt": "2026-11-01T00:00:00Z", "version": 1 });
    }
    world.add(Kind::Secret, "tool", json!({ "keys": stored }));
    let refs = json!([{ "name": "tool", "keys": keys }]);
    world.set(Kind::AgentToolProfile, "tools", "/requiredSecretRefs", refs);
    world.set_stack("/secretPolicy/allowedSecretRefs", json!(["model", "docs-key", "tool"]));
    world.add(
        Kind::AgentSecretGrant,
        "tool",
        json!({
            "subject": { "kind": "tool", "name": "tools" },
            "secretRef": { "name": "tool", "keys": keys },
            "purpose": "tool", "allowedRepositories": ["acme/*"], "mountPolicy": "env",
        }),
    );
    world
}

fn refusals(world: &World) -> Vec<String> {
    let review = world.review();
    let denied = review.required_secrets.iter().filter(|secret| {
        secret.entry.decision == EntryDecision::Denied
            && secret.entry.why.code == Reason::SecretNotAllowedHere
    });
    denied.map(|secret| secret.entry.why.message.clone()).collect()
}

#[test]
fn key_becomes_a_variable_only_if_its_name_is_harmless() {
    let good = with_keys(&["token"]);
    assert_eq!(good.review().decision, Decision::Allowed, "{:?}", good.review().reasons);
    assert!(good.admit().unwrap().compiled.task.contains("TOKEN"));
    for key in ["path", "ld-preload", "home", "anthropic-base-url", "bailiwick-state", "git.dir"] {
        let world = with_keys(&[key]);
        assert_eq!(refusals(&world).len(), 1, "{key}");
        assert_eq!(world.review().mounts(), [], "{key}");
        assert!(world.admit().is_err(), "{key}");
    }
    assert_eq!(
        refusals(&with_keys(&["1st"])).len(),
        1,
        "a variable name cannot start with a digit"
    );
}

#[test]
fn model_key_with_the_name_of_a_program_setting_is_refused() {
    let mut world = World::good();
    for (kind, name) in [(Kind::Secret, "model"), (Kind::AgentSecretGrant, "fixer-model")] {
        let spec = world.spec(kind, name).to_string().replace("api-key", "https-proxy");
        *world.spec(kind, name) = serde_json::from_str::<Value>(&spec).unwrap();
    }
    let refs = json!([{ "name": "model", "keys": ["https-proxy"] }]);
    world.set_stack("/requiredSecretRefs", refs);
    assert_eq!(refusals(&world).len(), 1, "{:?}", world.review().reasons);
}

#[test]
fn two_values_never_have_the_same_name() {
    let colliding = with_keys(&["api-token", "api_token"]);
    let refusals = refusals(&colliding);
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(refusals.iter().all(|why| why.contains("API_TOKEN")), "{refusals:?}");
    assert!(colliding.admit().is_err());
    assert_eq!(with_keys(&["api-token", "other"]).review().decision, Decision::Allowed);
    // One key that two objects need is one value.
    let mut world = with_keys(&["token"]);
    let refs = json!([{ "name": "tool", "keys": ["token"] }]);
    world.set(Kind::AgentSkill, "runbook", "/requiredSecretRefs", refs);
    world.add(
        Kind::AgentSecretGrant,
        "skill",
        json!({
            "subject": { "kind": "skill", "name": "runbook" },
            "secretRef": { "name": "tool", "keys": ["token"] },
            "purpose": "skill", "allowedRepositories": ["acme/*"], "mountPolicy": "env",
        }),
    );
    assert_eq!(world.review().decision, Decision::Allowed, "{:?}", world.review().reasons);
}

#[test]
fn server_with_a_dangerous_variable_or_header_is_refused() {
    let server = |more: Value| -> AnyObject {
        let mut spec = json!({ "transport": "stdio", "command": "x", "scope": "global" });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        object(Kind::AgentMcpServer, "docs", spec)
    };
    let faults = |more: Value| server(more).check().unwrap().len();
    let key = |name: &str| json!({ "name": name, "secretRef": { "name": "s", "key": "k" } });
    assert_eq!(faults(json!({ "envFrom": [key("DOCS_KEY"), key("OTHER")] })), 0);
    for bad in ["PATH", "docs", "LD_PRELOAD", "X_BASE_URL", "A B", ""] {
        assert_ne!(faults(json!({ "envFrom": [key(bad)] })), 0, "{bad}");
    }
    assert_eq!(faults(json!({ "envFrom": [key("A"), key("A")] })), 1);
    let remote = |name: &str| {
        let url = "https://docs.example";
        faults(
            json!({ "transport": "sse", "command": null, "url": url, "headersFrom": [key(name)] }),
        )
    };
    assert_eq!(remote("Authorization"), 0);
    assert_ne!(remote("Path"), 0);
    assert_ne!(remote("A\r\nB"), 0);
    // Scopes that cannot be enforced are refused.
    assert_eq!(faults(json!({ "scope": "org" })), 1);
    assert_eq!(faults(json!({ "scope": "dispatch" })), 1);
}
