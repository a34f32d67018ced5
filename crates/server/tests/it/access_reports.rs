//! What the operator of a cluster reports of bindings: only the operator that leads can.

use bailiwick_fleet::ports::{FleetStore as _, TokenScope};
use bailiwick_server::mint;
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::{moment, start_server};

const ACCESS: &str = "/api/v1alpha1/namespaces/default/agentrolebindings/logs/access";
const LOGS: &str = "/api/v1alpha1/namespaces/default/agentrolebindings/logs";

fn document(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": spec,
    })
}

fn request(version: u64) -> Value {
    json!({
        "report": { "answer": "allowed", "specDigest": "d", "account": "default/runner" },
        "fence": {
            "kind": "ConfigMap", "namespace": "default", "name": "bailiwick-operator",
            "resourceVersion": version,
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_operator_that_leads_records_what_its_cluster_allows() {
    let server = start_server().await;
    let operator = mint("operator-of-a-cluster", TokenScope::Admin, None, moment()).unwrap();
    server.store.put_token(operator.record).await.unwrap();
    let by_operator = |method: &str, path: &str, body: &Value| {
        server.execute(HttpRequest::new(method, path).token(&operator.text).json(body))
    };
    let binding = json!({
        "subject": { "kind": "service-account", "name": "runner" },
        "scope": { "kind": "namespace", "name": "default" },
        "roleRef": { "kind": "Role", "name": "reader" },
    });
    let bindings = "/api/v1alpha1/agentrolebindings";
    server.send("POST", bindings, &document("AgentRoleBinding", "logs", binding)).await.expect(201);
    let fence = document("ConfigMap", "bailiwick-operator", json!({ "data": { "epoch": "1" } }));
    let config_maps = "/api/v1alpha1/configmaps";
    let fence = by_operator("POST", config_maps, &fence).await.expect(201).json();
    let version = fence["metadata"]["resourceVersion"].as_u64().unwrap();
    // Another admin, an old fence and another object as the fence are refused.
    let other = server.send("PUT", ACCESS, &request(version)).await.expect(403);
    assert_eq!(other.code(), "POLICY_DENIED");
    let stale = by_operator("PUT", ACCESS, &request(version + 1)).await.expect(409);
    assert_eq!(stale.code(), "CONFLICT");
    let mut without = request(version);
    without["fence"]["name"] = json!("runner");
    by_operator("PUT", ACCESS, &without).await.expect(422);
    by_operator("PUT", ACCESS, &request(0)).await.expect(422);
    assert!(server.get(LOGS).await.json()["status"]["access"].is_null());
    let recorded = by_operator("PUT", ACCESS, &request(version)).await.expect(200).json();
    assert_eq!(recorded["status"]["access"]["report"]["answer"], "allowed");
    assert!(recorded["status"]["access"]["at"].is_string());
    // No document changes it.
    let mut document = server.get(LOGS).await.json();
    document["status"]["access"]["report"]["answer"] = json!("missing");
    by_operator("PUT", LOGS, &document).await.expect(422);
    let kept = server.get(LOGS).await.json();
    assert_eq!(kept["status"]["access"], recorded["status"]["access"]);
    // Only bindings have a report. Repeating one is no news.
    let fence = ACCESS.replace("agentrolebindings/logs", "configmaps/bailiwick-operator");
    by_operator("PUT", &fence, &request(version)).await.expect(422);
    by_operator("PUT", ACCESS, &request(version)).await.expect(200);
    let audit = server.audit().await.into_iter();
    let news = audit.filter(|(_, event, _)| event == "AccessReviewRecorded");
    assert_eq!(news.count(), 1);
}
