//! Where the API server and the embedded database differ. The guide has the same list.

use bailiwick_resources::API_VERSION;
use serde_json::{Value, json};

use crate::random_objects::embedded;
use crate::{api_server, schema};

fn object(kind: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": "example" }, "spec": spec,
    })
}

/// Whether the API server accepts an object, and whether the embedded database does.
fn accepted(object: &Value) -> (bool, bool) {
    let kind = object["kind"].as_str().unwrap().parse().unwrap();
    (api_server::errors(&schema(kind), object).is_empty(), embedded(object).is_empty())
}

#[test]
fn control_plane_checks_rules_that_a_schema_cannot_express() {
    let server = |headers: Value, keys: Value| {
        let spec = json!({
            "transport": "sse", "scope": "global", "url": "https://example.org",
            "headersFrom": headers, "secretRefs": [{ "name": "tokens", "keys": keys }],
        });
        object("AgentMcpServer", spec)
    };
    let header =
        |name: &str| json!({ "name": name, "secretRef": { "name": "tokens", "key": "a" } });
    assert_eq!(accepted(&server(json!([header("X-Key")]), json!(["a"]))), (true, true));
    // A key of a secret that no header gets.
    assert_eq!(accepted(&server(json!([header("X-Key")]), json!(["a", "b"]))), (true, false));
    // The same header twice.
    let duplicate = json!([header("X-Key"), header("x-key")]);
    assert_eq!(accepted(&server(duplicate, json!(["a"]))), (true, false));

    let accounts = |accounts: Value| {
        let spec = json!({
            "fullName": "owner/name", "forge": "local", "checkout": "/srv/name",
            "accounts": accounts,
        });
        object("Repository", spec)
    };
    assert_eq!(accepted(&accounts(json!({ "ada": ["ada"], "bob": ["bob"] }))), (true, true));
    // One account of two people.
    assert_eq!(accepted(&accounts(json!({ "ada": ["ada"], "bob": ["Ada"] }))), (true, false));

    let workspace_policy = |time: &str| {
        let spec = json!({ "mode": "per-run", "retentionPolicy": { "keepFor": time } });
        object("AgentWorkspacePolicy", spec)
    };
    assert_eq!(accepted(&workspace_policy("7d")), (true, true));
    // More than 500 million years.
    assert_eq!(accepted(&workspace_policy("999999999999d")), (true, false));
}
