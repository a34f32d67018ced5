//! The API never returns secret values.

use bailiwick_fleet::ports::FleetStore;
use serde_json::json;

use crate::client::HttpRequest;
use crate::test_server::start_server;

const VALUE: &str = "hunter2-is-not-a-good-password";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_response_contains_a_secret_value() {
    let server = start_server().await;
    let path = "/api/v1alpha1/namespaces/default/secrets/hook";
    let body = json!({ "values": { "key": VALUE }, "base64Values": { "raw": "AAEC" } });
    let set = server.send("PUT", path, &body).await.expect(200);
    assert_eq!(set.json()["spec"]["keys"]["key"]["version"], 1);
    let stored = server.store.secret_value("default", "hook", "key").await.unwrap();
    assert_eq!(stored.as_deref(), Some(VALUE.as_bytes()), "the value is stored");
    let raw = server.store.secret_value("default", "hook", "raw").await.unwrap();
    assert_eq!(raw.as_deref(), Some([0, 1, 2].as_slice()));
    server.send("PUT", path, &body).await.expect(200);
    let mut responses = set.text();
    for path in [
        path,
        "/api/v1alpha1/secrets",
        "/api/agents/secrets",
        "/api/v1alpha1/audit",
        "/metrics",
        "/api/v1alpha1/tokens",
    ] {
        responses.push_str(&server.get(path).await.expect(200).text());
    }
    let mut events = server.watch("/api/v1alpha1/events", Some(0)).await;
    for _ in 0..3 {
        responses.push_str(&format!("{:?}", events.next().await));
    }
    assert!(
        responses.contains("\"hook\"") && responses.contains("AgentSecretRotated"),
        "{responses}"
    );
    assert!(!responses.contains(VALUE) && !responses.contains("AAEC"), "{responses}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_with_values_are_refused_and_errors_do_not_repeat_them() {
    let server = start_server().await;
    let path = "/api/v1alpha1/namespaces/default/secrets/hook";
    for body in [
        json!({ "values": VALUE }),
        json!({ "values": { "key": [VALUE] } }),
        json!({ "values": {} }),
        json!({ "values": { "a key": VALUE } }),
        json!({ "base64Values": { "key": VALUE } }),
        json!({ "data": { "key": VALUE } }),
        json!({ "values": { "key": VALUE }, "base64Values": { "key": "AAEC" } }),
    ] {
        let reply = server.send("PUT", path, &body).await.expect(422);
        assert!(!reply.text().contains(VALUE), "{}", reply.text());
    }
    let document = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "Secret",
        "metadata": { "name": "hook" }, "spec": { "keys": {} },
    });
    server.send("POST", "/api/v1alpha1/secrets", &document).await.expect(422);
    let grant = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentSecretGrant",
        "metadata": { "name": "hook" }, "spec": { "data": { "key": VALUE } },
    });
    let refused = server.send("POST", "/api/agents/secrets/grants", &grant).await.expect(422);
    assert!(!refused.text().contains(VALUE), "{}", refused.text());
    assert!(server.store.changes(0, 10).await.unwrap().is_empty(), "nothing was written");
    assert!(server.audit().await.is_empty());
    let patch = HttpRequest::new("PATCH", path).token(server.admin()).json(&json!({}));
    server.execute(patch).await.expect(405);
}
