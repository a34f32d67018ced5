//! The environment of MCP servers: granted values under separate names, and nothing that was deleted.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    Fleet as _, FleetStore as _, LaunchedState, RunVerb, RunVerbRequest, Target, World as _,
};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Object, RunPhase,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, fleet, in_state, reconcile, request, set_state,
    start_plane,
};

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
    let plane = start_plane(|_| {}).await;
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
async fn server_gets_its_granted_values_and_the_agent_does_not() {
    let plane = world(true).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let limits = &launch.limits;
    let server = &limits.mcp_servers[0];
    let environment: BTreeMap<&str, &str> =
        launch.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let value = |index: usize| environment[server.variable(&server.env_from[index]).as_str()];
    assert_eq!((value(0), value(1)), (SECRET, "north"));
    assert!(launch.task.contains("mcp-servers = [\"docs\"]"), "{}", launch.task);
    // The agent gets only values that the task names; no stored object contains the value.
    assert!(!launch.task.contains("secrets") && !format!("{:?}", launch.limits).contains(SECRET));
}

#[tokio::test]
async fn run_without_a_grant_does_not_start() {
    let plane = world(false).await;
    let refused = plane.api.dispatch(&caller("ada"), "default", request("r")).await;
    assert!(refused.is_err(), "{refused:?}");
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn run_whose_server_value_was_deleted_does_not_start() {
    let plane = world(true).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    plane.store.set_secret("default", "docs", BTreeMap::new(), plane.world.now()).await.unwrap();
    let map = document(Kind::ConfigMap, "docs", json!({ "data": { "other": "north" } }));
    declare(&plane, &[map]).await;
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
}

async fn act(plane: &Plane, run: &str, verb: RunVerb) -> Object<AgentDispatchRun> {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    reconcile(plane).await;
    all::<AgentDispatchRun>(plane).await.remove(0)
}

async fn change_server(plane: &Plane, change: impl Fn(&mut Value)) {
    let known = plane.store.get(Kind::AgentMcpServer, "default", "docs").await.unwrap().unwrap();
    let mut changed = document(Kind::AgentMcpServer, "docs", known.spec);
    change(&mut changed.spec);
    declare(plane, &[changed]).await;
}

#[tokio::test]
async fn retry_uses_the_current_servers_and_a_conversation_its_original_ones() {
    let plane = world(true).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    // Without a change, the limits are the same.
    act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched[0].limits, launched[1].limits);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    change_server(&plane, |spec| spec["command"] = json!("docs-mcp-mended")).await;
    let ended = act(&plane, &run, RunVerb::Continue).await;
    let why = ended.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("servers or sub-agents are others"), "{why}");
    let ended = act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 3, "{:?}", ended.status);
    let limits = &launched[2].limits;
    assert_eq!(limits.mcp_servers[0].command.as_deref(), Some("docs-mcp-mended"));
    // The attempt records the new server.
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let last = attempts.iter().max_by_key(|one| one.spec.number).unwrap();
    let snapshot = serde_json::to_string(&last.spec.agent_stack_snapshot).unwrap();
    assert!(snapshot.contains("docs-mcp-mended"), "{snapshot}");
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    // A new value without a grant is not available.
    change_server(&plane, |spec| {
        spec["envFrom"] =
            json!([{ "name": "TOKEN", "secretRef": { "name": "docs", "key": "other" } }]);
    })
    .await;
    let ended = act(&plane, &run, RunVerb::Retry).await;
    assert_eq!(ended.status.phase, RunPhase::Failed);
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 3);
}

/// A config map value that a server needs only since the run was admitted.
#[tokio::test]
async fn retry_gets_the_config_values_that_its_servers_need_now() {
    let plane = world(true).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let data = json!({ "region": "north", "zone": "cold" });
    let granted = document(
        Kind::AgentConfigGrant,
        "docs-region",
        json!({
            "subject": { "kind": "mcp-server", "name": "docs" },
            "configMapRef": { "name": "docs", "keys": ["region", "zone"] },
            "purpose": "mcp-config", "allowedRepositories": ["acme/*"],
        }),
    );
    let map = document(Kind::ConfigMap, "docs", json!({ "data": data }));
    declare(&plane, &[map, granted]).await;
    change_server(&plane, |spec| {
        let zone = json!({ "name": "ZONE", "configMapRef": { "name": "docs", "key": "zone" } });
        spec["envFrom"].as_array_mut().unwrap().push(zone);
    })
    .await;
    let ended = act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 2, "{:?}", ended.status);
    let limits = &launched[1].limits;
    let server = &limits.mcp_servers[0];
    let zone = server.env_from.iter().find(|value| value.name == "ZONE").unwrap();
    let expected = (server.variable(zone), "cold".to_owned());
    assert!(launched[1].environment.contains(&expected), "{:?}", launched[1].environment);
}

/// A queued run is compiled again before its launch: the first launch file is deleted.
#[tokio::test]
async fn outdated_launch_of_an_attempt_is_deleted() {
    let plane = world(true).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let launch = async || {
        let attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
        attempt.metadata.annotations["bailiwick.dev/launch-digest"].clone()
    };
    let before = launch().await;
    assert!(plane.store.blob(&before).await.unwrap().is_some());
    change_server(&plane, |spec| spec["command"] = json!("docs-mcp-mended")).await;
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let after = launch().await;
    assert_ne!(after, before);
    assert!(plane.store.blob(&after).await.unwrap().is_some());
    assert!(plane.store.blob(&before).await.unwrap().is_none());
}
