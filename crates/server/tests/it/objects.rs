//! Resources: create, read, replace, patch, delete; conflicts; read-only kinds and fields.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope};
use bailiwick_resources::{Author, Kind};
use bailiwick_server::mint;
use serde_json::{Value, json};

use crate::client::HttpRequest;
use crate::test_server::{config_map, moment, start_server};

const MAPS: &str = "/api/v1alpha1/configmaps";
const ONE: &str = "/api/v1alpha1/namespaces/default/configmaps/one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_of_an_object_has_an_audit_entry() {
    let server = start_server().await;
    let created = server.send("POST", MAPS, &config_map("one", "a")).await.expect(201).json();
    assert_eq!(created["metadata"]["generation"], 1);
    assert!(created["metadata"]["uid"].is_string());
    let read = server.get(ONE).await.expect(200).json();
    assert_eq!(read, created);
    let duplicate = server.send("POST", MAPS, &config_map("one", "a")).await.expect(409);
    assert_eq!(duplicate.code(), "ALREADY_EXISTS");
    assert_eq!(duplicate.json()["error"]["resource"], "ConfigMap/default/one");

    let mut next = created.clone();
    next["spec"]["data"]["k"] = json!("b");
    let replaced = server.send("PUT", ONE, &next).await.expect(200).json();
    assert_eq!(replaced["metadata"]["generation"], 2);
    let stale = server.send("PUT", ONE, &next).await.expect(409);
    assert_eq!(stale.code(), "CONFLICT", "the document has the previous version");

    let patch = json!({ "metadata": { "labels": { "team": "a" } }, "spec": { "data": { "k": null, "l": "c" } } });
    let merged = server.send("PATCH", ONE, &patch).await.expect(200).json();
    assert_eq!(merged["spec"]["data"], json!({ "l": "c" }));
    assert_eq!(merged["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(merged["metadata"]["generation"], 3);

    let stale_delete = format!("{ONE}?resourceVersion=1");
    assert_eq!(
        server
            .execute(HttpRequest::new("DELETE", &stale_delete).token(server.admin()))
            .await
            .status,
        409
    );
    server.execute(HttpRequest::new("DELETE", ONE).token(server.admin())).await.expect(200);
    server.get(ONE).await.expect(404);
    let events: Vec<String> = server
        .audit()
        .await
        .into_iter()
        .map(|(actor, event, subject)| {
            assert_eq!((actor.as_str(), subject.as_str()), ("admin", "ConfigMap/default/one"));
            event
        })
        .collect();
    let expected =
        ["ConfigMapCreated", "ConfigMapReplaced", "ConfigMapReplaced", "ConfigMapDeleted"];
    assert_eq!(events, expected, "a refused request has no entry");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_succeed_or_conflict() {
    let server = start_server().await;
    server.send("POST", MAPS, &config_map("one", "0")).await.expect(201);
    // Concurrent patches of different keys: none may be lost.
    server.store.pause.store(20, Ordering::Relaxed);
    let merges = (0..12).map(|number| {
        let request = HttpRequest::new("PATCH", ONE)
            .token(server.admin())
            .json(&json!({ "spec": { "data": { format!("key{number}"): "x" } } }));
        let address = server.address;
        tokio::spawn(async move { (number, request.send(address).await.status) })
    });
    let mut stored = Vec::new();
    for merge in merges.collect::<Vec<_>>() {
        let (number, status) = merge.await.unwrap();
        assert!(status == 200 || status == 409, "{status}");
        if status == 200 {
            stored.push(number);
        }
    }
    assert!(!stored.is_empty());
    let data = server.get(ONE).await.json()["spec"]["data"].clone();
    for number in 0..12 {
        let is_present = data.get(format!("key{number}")).is_some();
        assert_eq!(is_present, stored.contains(&number), "key{number} of {data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_run_shows_the_result_and_changes_nothing() {
    let server = start_server().await;
    server.send("POST", MAPS, &config_map("one", "a")).await.expect(201);
    let before = server.get(ONE).await.json();
    let lines = server.audit().await.len();
    let version = server.store.changes(0, 100).await.unwrap().len();
    let dry = |path: &str| format!("{path}?dryRun=All");
    let created = server.send("POST", &dry(MAPS), &config_map("two", "a")).await.expect(201).json();
    assert_eq!(created["metadata"]["name"], "two");
    server.send("POST", &dry(MAPS), &config_map("one", "a")).await.expect(409);
    server.send("POST", &dry(MAPS), &config_map("Not A Name", "a")).await.expect(422);
    let next = server.send("PUT", &dry(ONE), &config_map("one", "b")).await.expect(200).json();
    assert_eq!(next["metadata"]["generation"], 2, "the generation after the change");
    let stale = json!({ "metadata": { "resourceVersion": 99 }, "spec": { "data": { "k": "b" } } });
    server.send("PATCH", &dry(ONE), &stale).await.expect(409);
    server.execute(HttpRequest::new("DELETE", &dry(ONE)).token(server.admin())).await.expect(200);
    let documents = json!({ "documents": [config_map("one", "z"), config_map("three", "z")] });
    let applied =
        server.send("POST", "/api/v1alpha1/apply?dryRun=All", &documents).await.expect(200);
    assert_eq!(applied.json()["items"][0]["outcome"], "configured");
    assert_eq!(applied.json()["items"][1]["outcome"], "created");
    let unknown = server.send("POST", "/api/v1alpha1/apply?dryRun=yes", &documents).await;
    assert_eq!(unknown.status, 400, "an unknown dry-run mode is refused");
    assert_eq!(server.get(ONE).await.json(), before);
    assert_eq!(server.audit().await.len(), lines);
    assert_eq!(server.store.changes(0, 100).await.unwrap().len(), version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_control_plane_writes_records() {
    let server = start_server().await;
    let run = server.run("run-a").await;
    for &kind in Kind::ALL {
        let body = json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind,
            "metadata": { "name": "run-a" }, "spec": {},
        });
        let path = format!("/api/v1alpha1/namespaces/default/{}", kind.plural());
        let denied = server.send("POST", &path, &body).await;
        let apply = json!({ "documents": [body] });
        let applied = server.send("POST", "/api/v1alpha1/apply", &apply).await;
        let recorded = kind.author() == Author::ControlPlane;
        assert_eq!(denied.status == 403 && denied.code() == "KIND_DENIED", recorded, "{denied:?}");
        assert_eq!(applied.status == 403, recorded, "{kind}: {applied:?}");
        if recorded {
            let one = format!("{path}/run-a");
            server.send("PUT", &one, &body).await.expect(403);
            server.send("PATCH", &one, &json!({})).await.expect(403);
            server
                .execute(HttpRequest::new("DELETE", &one).token(server.admin()))
                .await
                .expect(403);
        }
    }
    // A client cannot write a status.
    let one = "/api/v1alpha1/namespaces/default/agentdispatchruns/run-a/status";
    let mut forged = serde_json::to_value(&run).unwrap();
    forged["status"]["phase"] = json!("succeeded");
    let denied = server.send("PUT", one, &forged).await.expect(403);
    assert_eq!(denied.code(), "STATUS_DENIED");
    let now = server.store.get(Kind::AgentDispatchRun, "default", "run-a").await.unwrap().unwrap();
    assert_eq!(now, run);
    let mut with_status = config_map("x", "a");
    with_status["status"] = json!({});
    server.send("POST", MAPS, &with_status).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_fields_are_listed() {
    let server = start_server().await;
    let post = async |body: &Value| server.send("POST", MAPS, body).await;
    let mut unknown = config_map("one", "a");
    unknown["spec"]["surprise"] = json!(1);
    let reply = post(&unknown).await.expect(422);
    assert_eq!(reply.json()["error"]["reasons"][0]["field"], "spec.surprise");
    assert!(reply.text().contains("surprise"), "{}", reply.text());
    assert_eq!(reply.headers["x-correlation-id"], reply.json()["error"]["correlationId"]);
    let mut key = config_map("one", "a");
    key["metadata"]["nmae"] = json!("x");
    post(&key).await.expect(422);
    let mut version = config_map("one", "a");
    version["apiVersion"] = json!("v1");
    let reply = post(&version).await.expect(422);
    assert_eq!(reply.json()["error"]["reasons"][0]["field"], "apiVersion");
    let mut kind = config_map("one", "a");
    kind["kind"] = json!("Role");
    post(&kind).await.expect(422);
    let broken = HttpRequest::new("POST", MAPS).token(server.admin());
    let broken = broken.header("content-type", "application/json").bytes("{");
    assert_eq!(server.execute(broken).await.expect(400).code(), "BAD_REQUEST");
    let form = HttpRequest::new("POST", MAPS).token(server.admin());
    let form = form.header("content-type", "text/plain").bytes(config_map("one", "a").to_string());
    server.execute(form).await.expect(415);
    server.get("/api/v1alpha1/configmap-s").await.expect(404);
    server.get(&format!("{MAPS}?surprise=1")).await.expect(400);
    server.get(&format!("{MAPS}?limit=1&limit=2")).await.expect(400);
    let other = "/api/v1alpha1/namespaces/team-b/configmaps";
    let mut elsewhere = config_map("one", "a");
    elsewhere["metadata"]["namespace"] = json!("team-a");
    server.send("POST", other, &elsewhere).await.expect(422);
    let created = server.send("POST", other, &config_map("one", "a")).await.expect(201).json();
    assert_eq!(created["metadata"]["namespace"], "team-b", "the namespace comes from the path");
    // Objects that the control plane acts on must be in the namespace that it watches.
    let pools = "/api/v1alpha1/namespaces/team-b/runnerpools";
    let pool = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool", "metadata": { "name": "p" },
        "spec": { "capacity": 1, "trustTier": "trusted", "serviceAccountRef": "runner" },
    });
    let refused = server.send("POST", pools, &pool).await.expect(422).json();
    assert_eq!(refused["error"]["reasons"][0]["field"], "metadata.namespace", "{refused}");
    let here = "/api/v1alpha1/namespaces/default/runnerpools";
    server.send("POST", here, &pool).await.expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_selectors_and_pages() {
    let server = start_server().await;
    for number in 0..25 {
        let mut map = config_map(&format!("m{number:02}"), "a");
        map["metadata"]["labels"] = json!({ "unknown": (number % 2 == 1).to_string() });
        server.send("POST", MAPS, &map).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let unknown =
        server.get(&format!("{MAPS}?labelSelector=unknown%3Dtrue")).await.expect(200).json();
    assert_eq!(names(&unknown).len(), 12);
    let mut all = Vec::new();
    let mut next = String::new();
    loop {
        let list = server.get(&format!("{MAPS}?limit=7{next}")).await.expect(200).json();
        assert!(names(&list).len() <= 7);
        all.extend(names(&list));
        match list["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    let expected: Vec<String> = (0..25).map(|number| format!("m{number:02}")).collect();
    assert_eq!(all, expected, "each object once, in order");
    let newest = server.get(&format!("{MAPS}?limit=1&order=newest")).await.json();
    assert_eq!(names(&newest), ["m24"]);
    for bad in ["x", "-1", "", "1.5", "99999999999999999999"] {
        let refused = server.get(&format!("{MAPS}?continue={bad}")).await.expect(400);
        assert_eq!(refused.code(), "BAD_REQUEST", "{bad}");
    }

    server.run("run-a").await;
    for path in ["/api/v1alpha1/agentdispatchruns", "/api/v1alpha1/runs", "/api/agents/runs"] {
        let ours = format!("{path}?fieldSelector=stack=mender,status=pending");
        assert_eq!(names(&server.get(&ours).await.expect(200).json()), ["run-a"], "{path}");
        let none = format!("{path}?fieldSelector=stack=other");
        assert!(names(&server.get(&none).await.expect(200).json()).is_empty());
    }
    for wrong in [
        "fieldSelector=colour=red",
        "labelSelector=unknown",
        "labelSelector=unknown!%3Dtrue",
        "limit=0",
        "limit=5000",
        "order=any",
        "watch=perhaps",
    ] {
        server.get(&format!("/api/v1alpha1/runs?{wrong}")).await.expect(400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_has_a_list_under_each_of_its_names() {
    let server = start_server().await;
    for &kind in Kind::ALL {
        for name in [kind.plural(), kind.as_str(), kind.short()] {
            for path in ["/api/v1alpha1", "/api/v1alpha1/namespaces/default"] {
                let list = server.get(&format!("{path}/{name}")).await.expect(200).json();
                assert_eq!(list["kind"], kind.as_str(), "{path}/{name}");
            }
            let one = format!("/api/v1alpha1/namespaces/default/{name}/nobody");
            let missing = server.get(&one).await.expect(404);
            let expected = format!("{kind}/default/nobody");
            assert_eq!(missing.json()["error"]["resource"], expected.as_str(), "{one}");
        }
    }
    let unknown = server.get("/api/v1alpha1/namespaces/default/configmaps/%ff").await.expect(400);
    assert_eq!(unknown.code(), "BAD_REQUEST");
    let up = "/api/v1alpha1/namespaces/default/configmaps/..%2f..%2fetc";
    server.get(up).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_routes_return_the_same_objects() {
    let server = start_server().await;
    let identity = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentServiceAccount",
        "metadata": { "name": "mender" },
        "spec": { "namespace": "default", "serviceAccountName": "mender", "owner": { "kind": "agent-stack", "name": "mender" } },
    });
    server.send("POST", "/api/agents/identities/service-accounts", &identity).await.expect(201);
    let listed = server.get("/api/agents/identities").await.expect(200).json();
    assert_eq!(listed["items"][0]["metadata"]["name"], "mender");
    let wrong = server.send("POST", "/api/agents/secrets/grants", &config_map("one", "a")).await;
    assert_eq!(wrong.json()["error"]["reasons"][0]["field"], "kind", "{wrong:?}");
    server.send("POST", MAPS, &config_map("one", "a")).await.expect(201);
    let long = server.get(MAPS).await.json();
    assert_eq!(server.get("/api/agents/configmaps").await.expect(200).json(), long);
    assert_eq!(server.get("/api/v1alpha1/cm").await.expect(200).json(), long);
}

/// The author of a label cannot review it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_needs_a_review_by_another_person_on_every_route() {
    let server = start_server().await;
    let bob = mint("bob", TokenScope::Admin, None, moment()).unwrap();
    server.store.put_token(bob.record).await.unwrap();
    let text = "Take small steps.";
    let digest = bailiwick_model::Sha256Hex::of(text);
    let label = |by: Option<&str>| {
        let mut spec = json!({
            "promptFragment": text, "allowedSources": ["manual"], "requiresReview": true,
        });
        if let Some(by) = by {
            spec["reviewedBy"] = json!(by);
            spec["reviewedDigest"] = json!(digest.as_str());
        }
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentContextLabel",
            "metadata": { "name": "careful" }, "spec": spec,
        })
    };
    let all = "/api/v1alpha1/agentcontextlabels";
    let one = "/api/v1alpha1/namespaces/default/agentcontextlabels/careful";
    let apply = "/api/v1alpha1/apply";
    let documents = |by| json!({ "documents": [label(by)] });
    for by in ["admin", "bob"] {
        server.send("POST", all, &label(Some(by))).await.expect(422);
        server.send("POST", apply, &documents(Some(by))).await.expect(422);
    }
    server.send("POST", all, &label(None)).await.expect(201);
    let review = |by: &str| json!({ "spec": { "reviewedBy": by, "reviewedDigest": digest } });
    for by in ["admin", "bob"] {
        server.send("PUT", one, &label(Some(by))).await.expect(422);
        server.send("PATCH", one, &review(by)).await.expect(422);
        server.send("POST", apply, &documents(Some(by))).await.expect(422);
    }
    server
        .execute(HttpRequest::new("PATCH", one).token(&bob.text).json(&review("bob")))
        .await
        .expect(200);
    // Applying again changes nothing, including the review.
    let repeated = server.send("POST", apply, &documents(Some("bob"))).await.expect(200).json();
    assert_eq!(repeated["items"][0]["outcome"], "unchanged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn author_of_a_role_binding_is_the_person_of_the_token() {
    const BINDINGS: &str = "/api/v1alpha1/agentrolebindings";
    const FIXER: &str = "/api/v1alpha1/namespaces/default/agentrolebindings/fixer";
    const AUTHOR: &str = "bailiwick.dev/applied-by";
    let server = start_server().await;
    let bob = mint("bob", TokenScope::Admin, None, moment()).unwrap();
    server.store.put_token(bob.record).await.unwrap();
    let binding = |role: &str, claimed: &str| {
        json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentRoleBinding",
            "metadata": { "name": "fixer", "annotations": { AUTHOR: claimed, "note": claimed } },
            "spec": {
                "subject": { "kind": "agent-stack", "name": "fixer" },
                "scope": { "kind": "repository", "name": "web" },
                "roleRef": { "kind": "RoleTemplate", "name": role },
                "escalationPolicy": "allow-if-owner",
            },
        })
    };
    let by_bob = |method: &str, path: &str, body: &Value| {
        server.execute(HttpRequest::new(method, path).token(&bob.text).json(body))
    };
    let author = |reply: &Value| reply["metadata"]["annotations"][AUTHOR].clone();
    let created =
        by_bob("POST", BINDINGS, &binding("agent-approver", "admin")).await.expect(201).json();
    assert_eq!(author(&created), "bob");
    assert_eq!(created["metadata"]["annotations"]["note"], "admin", "other annotations are kept");
    // An unchanged spec keeps its author, and no request can set another author.
    let same = server.send("PUT", FIXER, &binding("agent-approver", "admin")).await.expect(200);
    assert_eq!(author(&same.json()), "bob");
    for claimed in [json!("admin"), json!(null)] {
        let patch = json!({ "metadata": { "annotations": { AUTHOR: claimed } } });
        let patched = by_bob("PATCH", FIXER, &patch).await.expect(200).json();
        assert_eq!(author(&patched), "bob");
    }
    let documents = json!({ "documents": [binding("agent-approver", "admin")] });
    by_bob("POST", "/api/v1alpha1/apply", &documents).await.expect(200);
    assert_eq!(author(&server.get(FIXER).await.json()), "bob");
    // A changed spec gets the person who writes it as its author.
    let patch = json!({ "spec": { "roleRef": { "name": "secret-grant-admin" } } });
    let patched = server.send("PATCH", FIXER, &patch).await.expect(200).json();
    assert_eq!(author(&patched), "admin");
    let documents = json!({ "documents": [binding("agent-readonly", "admin")] });
    by_bob("POST", "/api/v1alpha1/apply", &documents).await.expect(200);
    assert_eq!(author(&server.get(FIXER).await.json()), "bob");
}
