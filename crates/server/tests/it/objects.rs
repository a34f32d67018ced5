//! Resources: created, read, replaced, merged, deleted; conflicts; what nobody may write.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope};
use bailiwick_resources::{Author, Kind};
use bailiwick_server::mint;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::place::{config_map, moment, place};

const MAPS: &str = "/api/v1alpha1/configmaps";
const ONE: &str = "/api/v1alpha1/namespaces/default/configmaps/one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_lives_and_each_deed_has_its_audit_line() {
    let place = place().await;
    let made = place.send("POST", MAPS, &config_map("one", "a")).await.expect(201).json();
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made["metadata"]["uid"].is_string());
    let read = place.get(ONE).await.expect(200).json();
    assert_eq!(read, made);
    let again = place.send("POST", MAPS, &config_map("one", "a")).await.expect(409);
    assert_eq!(again.code(), "ALREADY_EXISTS");
    assert_eq!(again.json()["error"]["resource"], "ConfigMap/default/one");

    let mut next = made.clone();
    next["spec"]["data"]["k"] = json!("b");
    let replaced = place.send("PUT", ONE, &next).await.expect(200).json();
    assert_eq!(replaced["metadata"]["generation"], 2);
    let stale = place.send("PUT", ONE, &next).await.expect(409);
    assert_eq!(stale.code(), "CONFLICT", "it names the version before");

    let patch = json!({ "metadata": { "labels": { "team": "a" } }, "spec": { "data": { "k": null, "l": "c" } } });
    let merged = place.send("PATCH", ONE, &patch).await.expect(200).json();
    assert_eq!(merged["spec"]["data"], json!({ "l": "c" }));
    assert_eq!(merged["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(merged["metadata"]["generation"], 3);

    let gone = format!("{ONE}?resourceVersion=1");
    assert_eq!(place.ask(Ask::new("DELETE", &gone).token(place.admin())).await.status, 409);
    place.ask(Ask::new("DELETE", ONE).token(place.admin())).await.expect(200);
    place.get(ONE).await.expect(404);
    let events: Vec<String> = place
        .audit()
        .await
        .into_iter()
        .map(|(who, event, what)| {
            assert_eq!((who.as_str(), what.as_str()), ("admin", "ConfigMap/default/one"));
            event
        })
        .collect();
    let wanted = ["ConfigMapCreated", "ConfigMapReplaced", "ConfigMapReplaced", "ConfigMapDeleted"];
    assert_eq!(events, wanted, "what was refused left no line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_write_at_once_each_is_either_told_or_kept() {
    let place = place().await;
    place.send("POST", MAPS, &config_map("one", "0")).await.expect(201);
    // Merges of different keys: none may be lost, whoever was quicker.
    place.store.pause.store(20, Ordering::Relaxed);
    let merges = (0..12).map(|number| {
        let ask = Ask::new("PATCH", ONE)
            .token(place.admin())
            .json(&json!({ "spec": { "data": { format!("key{number}"): "x" } } }));
        let address = place.address;
        tokio::spawn(async move { (number, ask.send(address).await.status) })
    });
    let mut kept = Vec::new();
    for merge in merges.collect::<Vec<_>>() {
        let (number, status) = merge.await.unwrap();
        assert!(status == 200 || status == 409, "{status}");
        if status == 200 {
            kept.push(number);
        }
    }
    assert!(!kept.is_empty());
    let data = place.get(ONE).await.json()["spec"]["data"].clone();
    for number in 0..12 {
        let there = data.get(format!("key{number}")).is_some();
        assert_eq!(there, kept.contains(&number), "key{number} of {data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_all_and_changes_nothing() {
    let place = place().await;
    place.send("POST", MAPS, &config_map("one", "a")).await.expect(201);
    let before = place.get(ONE).await.json();
    let lines = place.audit().await.len();
    let version = place.store.changes(0, 100).await.unwrap().len();
    let dry = |path: &str| format!("{path}?dryRun=All");
    let made = place.send("POST", &dry(MAPS), &config_map("two", "a")).await.expect(201).json();
    assert_eq!(made["metadata"]["name"], "two");
    place.send("POST", &dry(MAPS), &config_map("one", "a")).await.expect(409);
    place.send("POST", &dry(MAPS), &config_map("Not A Name", "a")).await.expect(422);
    let next = place.send("PUT", &dry(ONE), &config_map("one", "b")).await.expect(200).json();
    assert_eq!(next["metadata"]["generation"], 2, "as it would be");
    let stale = json!({ "metadata": { "resourceVersion": 99 }, "spec": { "data": { "k": "b" } } });
    place.send("PATCH", &dry(ONE), &stale).await.expect(409);
    place.ask(Ask::new("DELETE", &dry(ONE)).token(place.admin())).await.expect(200);
    let documents = json!({ "documents": [config_map("one", "z"), config_map("three", "z")] });
    let applied =
        place.send("POST", "/api/v1alpha1/apply?dryRun=All", &documents).await.expect(200);
    assert_eq!(applied.json()["items"][0]["outcome"], "configured");
    assert_eq!(applied.json()["items"][1]["outcome"], "created");
    let odd = place.send("POST", "/api/v1alpha1/apply?dryRun=yes", &documents).await;
    assert_eq!(odd.status, 400, "an unknown way of not doing it is not doing it");
    assert_eq!(place.get(ONE).await.json(), before);
    assert_eq!(place.audit().await.len(), lines);
    assert_eq!(place.store.changes(0, 100).await.unwrap().len(), version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_control_plane_records_is_written_by_nobody_else() {
    let place = place().await;
    let run = place.run("run-a").await;
    for &kind in Kind::ALL {
        let body = json!({
            "apiVersion": "bailiwick.dev/v1alpha1", "kind": kind,
            "metadata": { "name": "run-a" }, "spec": {},
        });
        let path = format!("/api/v1alpha1/namespaces/default/{}", kind.plural());
        let denied = place.send("POST", &path, &body).await;
        let apply = json!({ "documents": [body] });
        let applied = place.send("POST", "/api/v1alpha1/apply", &apply).await;
        let recorded = kind.author() == Author::ControlPlane;
        assert_eq!(denied.status == 403 && denied.code() == "KIND_DENIED", recorded, "{denied:?}");
        assert_eq!(applied.status == 403, recorded, "{kind}: {applied:?}");
        if recorded {
            let one = format!("{path}/run-a");
            place.send("PUT", &one, &body).await.expect(403);
            place.send("PATCH", &one, &json!({})).await.expect(403);
            place.ask(Ask::new("DELETE", &one).token(place.admin())).await.expect(403);
        }
    }
    // Nobody calls back with a phase of their own: there is no way to write a status.
    let one = "/api/v1alpha1/namespaces/default/agentdispatchruns/run-a/status";
    let mut lie = serde_json::to_value(&run).unwrap();
    lie["status"]["phase"] = json!("succeeded");
    let denied = place.send("PUT", one, &lie).await.expect(403);
    assert_eq!(denied.code(), "STATUS_DENIED");
    let now = place.store.get(Kind::AgentDispatchRun, "default", "run-a").await.unwrap().unwrap();
    assert_eq!(now, run);
    let mut made_up = config_map("x", "a");
    made_up["status"] = json!({});
    place.send("POST", MAPS, &made_up).await.expect(422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_told_field_by_field() {
    let place = place().await;
    let post = async |body: &Value| place.send("POST", MAPS, body).await;
    let mut unknown = config_map("one", "a");
    unknown["spec"]["surprise"] = json!(1);
    let reply = post(&unknown).await.expect(422);
    assert_eq!(reply.json()["error"]["reasons"][0]["field"], "spec");
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
    let broken = Ask::new("POST", MAPS).token(place.admin());
    let broken = broken.header("content-type", "application/json").bytes("{");
    assert_eq!(place.ask(broken).await.expect(400).code(), "BAD_REQUEST");
    let form = Ask::new("POST", MAPS).token(place.admin());
    let form = form.header("content-type", "text/plain").bytes(config_map("one", "a").to_string());
    place.ask(form).await.expect(415);
    place.get("/api/v1alpha1/configmap-s").await.expect(404);
    place.get(&format!("{MAPS}?surprise=1")).await.expect(400);
    place.get(&format!("{MAPS}?limit=1&limit=2")).await.expect(400);
    let other = "/api/v1alpha1/namespaces/team-b/configmaps";
    let mut elsewhere = config_map("one", "a");
    elsewhere["metadata"]["namespace"] = json!("team-a");
    place.send("POST", other, &elsewhere).await.expect(422);
    let made = place.send("POST", other, &config_map("one", "a")).await.expect(201).json();
    assert_eq!(made["metadata"]["namespace"], "team-b", "the path says it");
    // What the control plane would act upon is where it looks.
    let pools = "/api/v1alpha1/namespaces/team-b/runnerpools";
    let pool = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "RunnerPool", "metadata": { "name": "p" },
        "spec": { "capacity": 1, "trustTier": "trusted", "serviceAccountRef": "runner" },
    });
    let refused = place.send("POST", pools, &pool).await.expect(422).json();
    assert_eq!(refused["error"]["reasons"][0]["field"], "metadata.namespace", "{refused}");
    let here = "/api/v1alpha1/namespaces/default/runnerpools";
    place.send("POST", here, &pool).await.expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_selected_and_come_in_pages() {
    let place = place().await;
    for number in 0..25 {
        let mut map = config_map(&format!("m{number:02}"), "a");
        map["metadata"]["labels"] = json!({ "odd": (number % 2 == 1).to_string() });
        place.send("POST", MAPS, &map).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let odd = place.get(&format!("{MAPS}?labelSelector=odd%3Dtrue")).await.expect(200).json();
    assert_eq!(names(&odd).len(), 12);
    let mut all = Vec::new();
    let mut next = String::new();
    loop {
        let list = place.get(&format!("{MAPS}?limit=7{next}")).await.expect(200).json();
        assert!(names(&list).len() <= 7);
        all.extend(names(&list));
        match list["metadata"]["continue"].as_str() {
            Some(place) => next = format!("&continue={place}"),
            None => break,
        }
    }
    let wanted: Vec<String> = (0..25).map(|number| format!("m{number:02}")).collect();
    assert_eq!(all, wanted, "each once, in order");
    let newest = place.get(&format!("{MAPS}?limit=1&order=newest")).await.json();
    assert_eq!(names(&newest), ["m24"]);

    place.run("run-a").await;
    for path in ["/api/v1alpha1/agentdispatchruns", "/api/v1alpha1/runs", "/api/agents/runs"] {
        let ours = format!("{path}?fieldSelector=stack=mender,status=pending");
        assert_eq!(names(&place.get(&ours).await.expect(200).json()), ["run-a"], "{path}");
        let none = format!("{path}?fieldSelector=stack=other");
        assert!(names(&place.get(&none).await.expect(200).json()).is_empty());
    }
    for wrong in [
        "fieldSelector=colour=red",
        "labelSelector=odd",
        "labelSelector=odd!%3Dtrue",
        "limit=0",
        "limit=5000",
        "order=any",
        "watch=perhaps",
    ] {
        place.get(&format!("/api/v1alpha1/runs?{wrong}")).await.expect(400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_found_by_each_of_its_names() {
    let place = place().await;
    for &kind in Kind::ALL {
        for name in [kind.plural(), kind.as_str(), kind.short()] {
            for path in ["/api/v1alpha1", "/api/v1alpha1/namespaces/default"] {
                let list = place.get(&format!("{path}/{name}")).await.expect(200).json();
                assert_eq!(list["kind"], kind.as_str(), "{path}/{name}");
            }
            let one = format!("/api/v1alpha1/namespaces/default/{name}/nobody");
            let missing = place.get(&one).await.expect(404);
            let wanted = format!("{kind}/default/nobody");
            assert_eq!(missing.json()["error"]["resource"], wanted.as_str(), "{one}");
        }
    }
    let odd = place.get("/api/v1alpha1/namespaces/default/configmaps/%ff").await.expect(400);
    assert_eq!(odd.code(), "BAD_REQUEST");
    let up = "/api/v1alpha1/namespaces/default/configmaps/..%2f..%2fetc";
    place.get(up).await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_routes_lead_to_the_same_objects() {
    let place = place().await;
    let identity = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentServiceAccount",
        "metadata": { "name": "mender" },
        "spec": { "namespace": "default", "serviceAccountName": "mender", "owner": { "kind": "agent-stack", "name": "mender" } },
    });
    place.send("POST", "/api/agents/identities/service-accounts", &identity).await.expect(201);
    let listed = place.get("/api/agents/identities").await.expect(200).json();
    assert_eq!(listed["items"][0]["metadata"]["name"], "mender");
    let wrong = place.send("POST", "/api/agents/secrets/grants", &config_map("one", "a")).await;
    assert_eq!(wrong.json()["error"]["reasons"][0]["field"], "kind", "{wrong:?}");
    place.send("POST", MAPS, &config_map("one", "a")).await.expect(201);
    let long = place.get(MAPS).await.json();
    assert_eq!(place.get("/api/agents/configmaps").await.expect(200).json(), long);
    assert_eq!(place.get("/api/v1alpha1/cm").await.expect(200).json(), long);
}

/// A review that its own author writes is none, whichever way it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_is_reviewed_by_somebody_else_on_every_route() {
    let place = place().await;
    let bob = mint("bob", TokenScope::Admin, None, moment()).unwrap();
    place.store.put_token(bob.record).await.unwrap();
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
        place.send("POST", all, &label(Some(by))).await.expect(422);
        place.send("POST", apply, &documents(Some(by))).await.expect(422);
    }
    place.send("POST", all, &label(None)).await.expect(201);
    let review = |by: &str| json!({ "spec": { "reviewedBy": by, "reviewedDigest": digest } });
    for by in ["admin", "bob"] {
        place.send("PUT", one, &label(Some(by))).await.expect(422);
        place.send("PATCH", one, &review(by)).await.expect(422);
        place.send("POST", apply, &documents(Some(by))).await.expect(422);
    }
    place.ask(Ask::new("PATCH", one).token(&bob.text).json(&review("bob"))).await.expect(200);
    // What is applied again is left alone, with the review in it.
    let again = place.send("POST", apply, &documents(Some("bob"))).await.expect(200).json();
    assert_eq!(again["items"][0]["outcome"], "unchanged");
}
