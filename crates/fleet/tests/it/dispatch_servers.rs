//! What MCP servers of a stack are given: what was granted to them, under names of their own, and nothing
//! that is gone.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    Fleet as _, FleetStore as _, LaunchedState, RunVerb, RunVerbRequest, Target, World as _,
};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Object, RunPhase,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, fleet, request, set, stand, standing, turn,
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
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let limits = &launch.limits;
    let server = &limits.mcp_servers[0];
    let given: BTreeMap<&str, &str> =
        launch.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let value = |at: usize| given[server.variable(&server.env_from[at]).as_str()];
    assert_eq!((value(0), value(1)), (SECRET, "north"));
    assert!(launch.task.contains("mcp-servers = [\"docs\"]"), "{}", launch.task);
    // What the task does not name, its agent does not get; nothing that is kept has the value in it.
    assert!(!launch.task.contains("secrets") && !format!("{:?}", launch.limits).contains(SECRET));
}

#[tokio::test]
async fn without_a_grant_nothing_starts() {
    let plane = world(false).await;
    let refused = plane.api.dispatch(&caller("ada"), "default", request("r")).await;
    assert!(refused.is_err(), "{refused:?}");
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_value_that_is_gone_when_it_starts_lets_nothing_start() {
    let plane = world(true).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    plane.store.set_secret("default", "docs", BTreeMap::new(), plane.world.now()).await.unwrap();
    let map = document(Kind::ConfigMap, "docs", json!({ "data": { "other": "north" } }));
    declare(&plane, &[map]).await;
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 0);
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
}

async fn act(plane: &Plane, run: &str, verb: RunVerb) -> Object<AgentDispatchRun> {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    turn(plane).await;
    all::<AgentDispatchRun>(plane).await.remove(0)
}

async fn change_server(plane: &Plane, change: impl Fn(&mut Value)) {
    let known = plane.store.get(Kind::AgentMcpServer, "default", "docs").await.unwrap().unwrap();
    let mut changed = document(Kind::AgentMcpServer, "docs", known.spec);
    change(&mut changed.spec);
    declare(plane, &[changed]).await;
}

#[tokio::test]
async fn a_retry_has_the_servers_of_today_and_a_conversation_those_it_began_with() {
    let plane = world(true).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    turn(&plane).await;
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    // While nothing has changed, it is as it was.
    act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched[0].limits, launched[1].limits);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    change_server(&plane, |spec| spec["command"] = json!("docs-mcp-mended")).await;
    let ended = act(&plane, &run, RunVerb::Continue).await;
    let why = ended.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("servers or sub-agents are others"), "{why}");
    let ended = act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 3, "{:?}", ended.status);
    let limits = &launched[2].limits;
    assert_eq!(limits.mcp_servers[0].command.as_deref(), Some("docs-mcp-mended"));
    // The record of the attempt says so too.
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    let last = attempts.iter().max_by_key(|one| one.spec.number).unwrap();
    let kept = serde_json::to_string(&last.spec.agent_stack_snapshot).unwrap();
    assert!(kept.contains("docs-mcp-mended"), "{kept}");
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    // What it needs today and nobody has granted, it does not get.
    change_server(&plane, |spec| {
        spec["envFrom"] =
            json!([{ "name": "TOKEN", "secretRef": { "name": "docs", "key": "other" } }]);
    })
    .await;
    let ended = act(&plane, &run, RunVerb::Retry).await;
    assert_eq!(ended.status.phase, RunPhase::Failed);
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 3);
}

/// A value of a config map that a server needs since the run was admitted.
#[tokio::test]
async fn a_retry_has_the_config_values_that_its_servers_need_today() {
    let plane = world(true).await;
    let run = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    turn(&plane).await;
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
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
    let given = (server.variable(zone), "cold".to_owned());
    assert!(launched[1].environment.contains(&given), "{:?}", launched[1].environment);
}

/// What a run that waited is launched with is looked at anew: what it would have been launched with goes.
#[tokio::test]
async fn what_an_attempt_is_launched_with_no_more_is_not_kept() {
    let plane = world(true).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let launch = async || {
        let attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
        attempt.metadata.annotations["bailiwick.dev/launch-digest"].clone()
    };
    let before = launch().await;
    assert!(plane.store.blob(&before).await.unwrap().is_some());
    change_server(&plane, |spec| spec["command"] = json!("docs-mcp-mended")).await;
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let after = launch().await;
    assert_ne!(after, before);
    assert!(plane.store.blob(&after).await.unwrap().is_some());
    assert!(plane.store.blob(&before).await.unwrap().is_none());
}
