//! Short routes return the same objects as the full ones.

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AgentApproval, AgentWorkspace, AnyObject, Metadata, Object, Resource};
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::{TestServer, moment, start_server};

fn document(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": spec,
    })
}

/// Creates, lists, reads, replaces, patches and deletes an object with its short route.
async fn check_all_methods(
    server: &TestServer,
    all: &str,
    one: &str,
    document: &Value,
    field: (&str, &str, &str),
) {
    let created = server.send("POST", all, document).await.expect(201).json();
    let listed = server.get(all).await.expect(200).json();
    assert_eq!(listed["items"][0], created);
    assert_eq!(server.get(one).await.expect(200).json(), created);
    let (name, second, third) = field;
    let mut next = created.clone();
    next["spec"][name] = json!(second);
    let replaced = server.send("PUT", one, &next).await.expect(200).json();
    assert_eq!(replaced["spec"][name], second);
    let stale = server.send("PUT", one, &next).await.expect(409);
    assert_eq!(stale.code(), "CONFLICT");
    let merged = server.send("PATCH", one, &json!({ "spec": { name: third } })).await;
    assert_eq!(merged.expect(200).json()["spec"][name], third);
    server.execute(HttpRequest::new("DELETE", one).token(server.admin())).await.expect(200);
    server.get(one).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stacks_and_rules_have_all_methods_under_short_names() {
    let server = start_server().await;
    let stack = json!({
        "baseAgent": "script", "role": "developer", "toolPolicy": "tools", "runnerPool": "inside",
        "runtimeIdentity": { "serviceAccountRef": "fixer" },
    });
    let stack = document("AgentStack", "s", stack);
    let field = ("role", "reviewer", "tester");
    check_all_methods(&server, "/api/agents/stacks", "/api/agents/stacks/s", &stack, field).await;
    let rule = json!({
        "lifecycleState": "draft", "sources": ["ci"], "agentStack": "s", "taskKind": "repair",
        "promptTemplate": "Mend it.",
    });
    let rule = document("AgentTriggerRule", "r", rule);
    let field = ("taskKind", "review", "release");
    check_all_methods(&server, "/api/agents/rules", "/api/agents/rules/r", &rule, field).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_and_bindings_are_created_under_short_names() {
    let server = start_server().await;
    let subject = json!({ "kind": "agent-stack", "name": "s" });
    let grant = json!({
        "subject": subject, "configMapRef": { "name": "c", "keys": ["k"] },
        "purpose": "tool-config", "allowedRepositories": ["acme/*"],
    });
    let grant = document("AgentConfigGrant", "g", grant);
    server.send("POST", "/api/agents/config/grants", &grant).await.expect(201);
    let binding = json!({
        "subject": subject, "scope": { "kind": "namespace", "name": "default" },
        "roleRef": { "kind": "Role", "name": "r" },
    });
    let binding = document("AgentRoleBinding", "b", binding);
    server.send("POST", "/api/agents/permissions/role-bindings", &binding).await.expect(201);
    let events: Vec<String> = server.audit().await.into_iter().map(|(_, event, _)| event).collect();
    assert_eq!(events, ["AgentConfigGrantApplied", "AgentRoleBindingApplied"]);
    let requirements = server.get("/api/agents/capability-requirements").await.expect(200).json();
    assert_eq!(requirements["items"], json!([]));
}

async fn create_record<R: Resource>(server: &TestServer, name: &str, spec: Value) {
    let spec: R = serde_json::from_value(spec).unwrap();
    let object = AnyObject::of(&Object::new(Metadata::named(name), spec)).unwrap();
    server.store.commit(vec![Write::Create(object)], moment()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_read_under_short_names() {
    let server = start_server().await;
    let approval = json!({
        "dispatchRun": "adr-1", "requestedBy": { "kind": "agent-stack", "name": "s" },
        "action": { "type": { "class": "tool-call" }, "target": "x", "summary": "y" }, "policyReasons": [],
        "artifactRefs": [], "artifactDigest": "", "expiresAt": moment(),
    });
    create_record::<AgentApproval>(&server, "a", approval).await;
    assert_eq!(
        server.get("/api/agents/approvals").await.json()["items"][0]["metadata"]["name"],
        "a"
    );
    let read = server.get("/api/agents/approvals/a").await.expect(200).json();
    for path in ["/api/agents/approvals/a/preview", "/api/v1alpha1/approvals/a/preview"] {
        assert_eq!(server.get(path).await.expect(200).json()["approval"], "a", "{path}");
    }
    assert_eq!(read["spec"]["dispatchRun"], "adr-1");
    let workspace = json!({
        "repository": "acme/app", "workspacePath": "/w", "ownership": "host", "branch": "b",
        "targetBranch": "main", "trustTier": "trusted",
    });
    create_record::<AgentWorkspace>(&server, "w", workspace).await;
    let read = server.get("/api/v1alpha1/workspaces/w").await.expect(200).json();
    assert_eq!(read["spec"]["branch"], "b");
    server.run("run-a").await;
    let read = server.get("/api/v1alpha1/runs/run-a").await.expect(200).json();
    assert_eq!(read["kind"], "AgentDispatchRun");
    let digest = Sha256Hex::of("bytes").to_string();
    let blob = Write::Blob { digest: digest.clone(), bytes: b"bytes".to_vec() };
    server.store.commit(vec![blob], moment()).await.unwrap();
    let path = format!("/api/v1alpha1/blobs/{digest}");
    assert_eq!(server.get(&path).await.expect(200).body, b"bytes");
    let nobody = HttpRequest::new("DELETE", "/api/v1alpha1/tokens/none").token(server.admin());
    server.execute(nobody).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_of_a_commit_are_listed_by_repository_and_sha() {
    let server = start_server().await;
    let path = "/api/v1alpha1/repositories/app/checks";
    let sha = "0".repeat(40);
    let found = server.get(&format!("{path}?sha={sha}")).await.expect(200).json();
    assert_eq!((&found["repository"], &found["sha"]), (&json!("app"), &json!(sha)));
    server.get(path).await.expect(422);
    server.get(&format!("{path}?ref=main")).await.expect(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_of_runs_and_workspaces_has_a_route() {
    let server = start_server().await;
    for path in [
        "/api/agents/runs/r/cancel",
        "/api/agents/runs/r/retry",
        "/api/agents/runs/r/resume",
        "/api/agents/runs/r/continue",
        "/api/agents/runs/r/fork",
        "/api/agents/runs/r/refresh-context",
    ] {
        server.send("POST", path, &json!({ "message": "more" })).await.expect(202);
    }
    for verb in bailiwick_fleet::ports::WorkspaceVerb::ALL {
        use bailiwick_fleet::ports::WorkspaceVerb;
        let creates = matches!(verb, WorkspaceVerb::Provision | WorkspaceVerb::LinkExisting);
        let (right, wrong) = match creates {
            true => ("/api/agents/workspaces", "/api/agents/workspaces/w/action"),
            false => ("/api/agents/workspaces/w/action", "/api/agents/workspaces"),
        };
        let body = json!({ "action": verb.as_str() });
        server.send("POST", right, &body).await.expect(202);
        server.send("POST", wrong, &body).await.expect(422);
    }
}
