//! Applying documents: all or none, with an outcome for each document.

use serde_json::{Value, json};

use crate::test_server::{TestServer, config_map, start_server};

async fn apply(server: &TestServer, documents: &[Value]) -> crate::client::HttpResponse {
    server.send("POST", "/api/v1alpha1/apply", &json!({ "documents": documents })).await
}

fn outcomes(reply: &Value) -> Vec<&str> {
    reply["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["outcome"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_lists_created_configured_and_unchanged_objects() {
    let server = start_server().await;
    let first = [config_map("a", "1"), config_map("b", "1")];
    let created = apply(&server, &first).await.expect(200).json();
    assert_eq!(outcomes(&created), ["created", "created"]);
    let lines = server.audit().await.len();
    let repeated = apply(&server, &first).await.expect(200).json();
    assert_eq!(outcomes(&repeated), ["unchanged", "unchanged"]);
    assert_eq!(repeated["items"][0]["resourceVersion"], created["items"][0]["resourceVersion"]);
    assert_eq!(server.audit().await.len(), lines, "nothing was changed");
    let mixed = [config_map("c", "1"), config_map("a", "2"), config_map("b", "1")];
    let done = apply(&server, &mixed).await.expect(200).json();
    assert_eq!(outcomes(&done), ["created", "configured", "unchanged"]);
    assert_eq!(done["items"][1]["generation"], 2);
    assert_eq!(server.audit().await.len(), lines + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_from_another_server_can_be_applied() {
    let server = start_server().await;
    apply(&server, &[config_map("a", "1")]).await.expect(200);
    let mut foreign = config_map("a", "2");
    foreign["metadata"]["uid"] = json!("of-another-server");
    foreign["metadata"]["generation"] = json!(77);
    let done = apply(&server, &[foreign]).await.expect(200).json();
    assert_eq!(outcomes(&done), ["configured"]);
    let stored = server.get("/api/v1alpha1/namespaces/default/configmaps/a").await.json();
    assert_eq!(stored["metadata"]["generation"], 2);
    assert_ne!(stored["metadata"]["uid"], "of-another-server");
    assert_eq!(stored["spec"]["data"]["k"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_invalid_document_stops_all() {
    let server = start_server().await;
    apply(&server, &[config_map("old", "1")]).await.expect(200);
    let before = server.get("/api/v1alpha1/configmaps").await.json();
    let mut stale = config_map("old", "2");
    stale["metadata"]["resourceVersion"] = json!(99);
    let mut unknown = config_map("b", "1");
    unknown["spec"]["x"] = json!(1);
    let mut run = config_map("r", "1");
    run["kind"] = json!("AgentDispatchRun");
    let mut secret = config_map("s", "1");
    secret["kind"] = json!("Secret");
    secret["spec"] = json!({});
    let bad = [
        (stale, 409),
        (unknown, 422),
        (run, 403),
        (secret, 422),
        (config_map("fine", "2"), 422),
        (json!("text"), 422),
    ];
    for (document, status) in bad {
        let reply = apply(&server, &[config_map("fine", "1"), document.clone()]).await;
        assert_eq!(reply.status, status, "{document}: {reply:?}");
        assert_eq!(server.get("/api/v1alpha1/configmaps").await.json()["items"], before["items"]);
    }
    apply(&server, &[]).await.expect(422);
    apply(&server, &[config_map("fine", "1")]).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_shows_what_apply_would_change_and_no_secret() {
    let server = start_server().await;
    let secret = "/api/v1alpha1/namespaces/default/secrets/api";
    let value = json!({ "values": { "key": "hunter2-hunter2-hunter2" } });
    server.send("PUT", secret, &value).await.expect(200);
    let created = apply(&server, &[config_map("a", "1"), config_map("b", "1")]).await.expect(200);
    assert_eq!(created.json()["items"][0]["object"]["spec"]["data"]["k"], "1");
    let lines = server.audit().await.len();
    let documents =
        [config_map("a", "2"), config_map("b", "1"), config_map("c", "hunter2-hunter2-hunter2")];
    let body = json!({ "documents": documents });
    let reply = server.send("POST", "/api/v1alpha1/diff", &body).await.expect(200);
    let text = reply.text();
    let items = reply.json()["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 2, "{text}");
    assert!(
        items[0]["diff"].as_str().unwrap().contains("-    k: \"1\"\n+    k: \"2\"\n"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(server.audit().await.len(), lines, "nothing was changed");
    server.get("/api/v1alpha1/namespaces/default/configmaps/c").await.expect(404);
}
