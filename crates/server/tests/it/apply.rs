//! Documents applied together: all or none, and told apart.

use serde_json::{Value, json};

use crate::place::{Place, config_map, place};

async fn apply(place: &Place, documents: &[Value]) -> crate::client::Reply {
    place.send("POST", "/api/v1alpha1/apply", &json!({ "documents": documents })).await
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
async fn it_says_what_was_created_configured_and_left_alone() {
    let place = place().await;
    let first = [config_map("a", "1"), config_map("b", "1")];
    let made = apply(&place, &first).await.expect(200).json();
    assert_eq!(outcomes(&made), ["created", "created"]);
    let lines = place.audit().await.len();
    let again = apply(&place, &first).await.expect(200).json();
    assert_eq!(outcomes(&again), ["unchanged", "unchanged"]);
    assert_eq!(again["items"][0]["resourceVersion"], made["items"][0]["resourceVersion"]);
    assert_eq!(place.audit().await.len(), lines, "nothing was done");
    let mixed = [config_map("c", "1"), config_map("a", "2"), config_map("b", "1")];
    let done = apply(&place, &mixed).await.expect(200).json();
    assert_eq!(outcomes(&done), ["created", "configured", "unchanged"]);
    assert_eq!(done["items"][1]["generation"], 2);
    assert_eq!(place.audit().await.len(), lines + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_another_server_gave_can_be_applied() {
    let place = place().await;
    apply(&place, &[config_map("a", "1")]).await.expect(200);
    let mut foreign = config_map("a", "2");
    foreign["metadata"]["uid"] = json!("of-another-server");
    foreign["metadata"]["generation"] = json!(77);
    let done = apply(&place, &[foreign]).await.expect(200).json();
    assert_eq!(outcomes(&done), ["configured"]);
    let now = place.get("/api/v1alpha1/namespaces/default/configmaps/a").await.json();
    assert_eq!(now["metadata"]["generation"], 2);
    assert_ne!(now["metadata"]["uid"], "of-another-server");
    assert_eq!(now["spec"]["data"]["k"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_document_stops_them_all() {
    let place = place().await;
    apply(&place, &[config_map("old", "1")]).await.expect(200);
    let before = place.get("/api/v1alpha1/configmaps").await.json();
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
        let reply = apply(&place, &[config_map("fine", "1"), document.clone()]).await;
        assert_eq!(reply.status, status, "{document}: {reply:?}");
        assert_eq!(place.get("/api/v1alpha1/configmaps").await.json()["items"], before["items"]);
    }
    apply(&place, &[]).await.expect(422);
    apply(&place, &[config_map("fine", "1")]).await.expect(200);
}
