//! What MCP servers of a stack are given: what was granted to them, under names of their own, and nothing
//! that is gone.

use std::collections::BTreeMap;

use bailiwick_control::admission::compile::LaunchLimits;
use bailiwick_control::ports::fleet::{Fleet as _, FleetStore as _, World as _};
use bailiwick_model::fleet::{AgentDispatchRun, AnyObject, Kind, RunPhase};
use serde::Deserialize as _;
use serde_json::json;

use crate::dispatch::{Plane, all, caller, declare, document, fleet, request, stand, turn};

const SECRET: &str = "the-server-s-own-value";

fn with_server(object: &mut AnyObject) {
    if object.kind == Kind::AgentStack {
        object.spec["mcpServerRefs"] = json!(["docs"]);
        object.spec["secretPolicy"] = json!({ "allowedSecretRefs": ["docs"] });
    }
    if object.kind == Kind::AgentToolProfile {
        object.spec["nativeTools"]["mcp"] = json!(true);
    }
}

async fn world(granted: bool) -> Plane {
    let plane = stand(|_| {}).await;
    let values = BTreeMap::from([("token".to_owned(), SECRET.as_bytes().to_vec())]);
    plane.store.set_secret("default", "docs", values, plane.world.now()).await.unwrap();
    let subject = json!({ "kind": "mcp-server", "name": "docs" });
    let mut documents = vec![
        document(
            Kind::AgentMcpServer,
            "docs",
            json!({
                "transport": "stdio", "command": "docs-mcp", "scope": "global", "lazy": true,
                "approvalPolicy": "allow",
                "envFrom": [
                    { "name": "TOKEN", "secretRef": { "name": "docs", "key": "token" } },
                    { "name": "REGION", "configMapRef": { "name": "docs", "key": "region" } },
                ],
            }),
        ),
        document(Kind::ConfigMap, "docs", json!({ "data": { "region": "north" } })),
        document(
            Kind::AgentConfigGrant,
            "docs-region",
            json!({
                "subject": subject, "configMapRef": { "name": "docs", "keys": ["region"] },
                "purpose": "mcp-config", "allowedRepositories": ["acme/*"],
            }),
        ),
    ];
    if granted {
        documents.push(document(
            Kind::AgentSecretGrant,
            "docs-token",
            json!({
                "subject": subject, "secretRef": { "name": "docs", "keys": ["token"] },
                "purpose": "mcp-server", "allowedRepositories": ["acme/*"], "mountPolicy": "env",
            }),
        ));
    }
    let mut changed = fleet(with_server);
    changed.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    documents.extend(changed);
    declare(&plane, &documents).await;
    plane
}

#[tokio::test]
async fn a_server_gets_what_was_granted_to_it_and_the_agent_does_not() {
    let plane = world(true).await;
    plane.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let limits = LaunchLimits::deserialize(&launch.limits).unwrap();
    let server = &limits.mcp_servers[0];
    let given: BTreeMap<&str, &str> =
        launch.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let value = |at: usize| given[server.variable(&server.env_from[at]).as_str()];
    assert_eq!((value(0), value(1)), (SECRET, "north"));
    assert!(launch.task.contains("mcp-servers = [\"docs\"]"), "{}", launch.task);
    // What the task does not name, its agent does not get; nothing that is kept has the value in it.
    assert!(!launch.task.contains("secrets") && !launch.limits.to_string().contains(SECRET));
}

#[tokio::test]
async fn without_a_grant_nothing_starts() {
    let plane = world(false).await;
    let refused = plane.dispatch(&caller("ada"), "default", request("r")).await;
    assert!(refused.is_err(), "{refused:?}");
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_value_that_is_gone_when_it_starts_lets_nothing_start() {
    let plane = world(true).await;
    plane.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    plane.store.set_secret("default", "docs", BTreeMap::new(), plane.world.now()).await.unwrap();
    let map = document(Kind::ConfigMap, "docs", json!({ "data": { "other": "north" } }));
    declare(&plane, &[map]).await;
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
}
