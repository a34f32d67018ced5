//! Streams: start, filters and end.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope, Write};
use bailiwick_resources::Kind;
use serde_json::json;

use crate::client::{Events, HttpRequest};
use crate::test_server::{moment, start_server, start_server_with};

const MAPS: &str = "/api/v1alpha1/configmaps?watch=1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_starts_with_its_version_and_continues_from_a_cursor() {
    let server = start_server().await;
    server.put("a", "1").await;
    let mut stream = server.watch(MAPS, None).await;
    let sync = stream.next().await.unwrap();
    assert_eq!((sync.name.as_str(), sync.id), ("sync", Some(1)));
    assert_eq!(sync.data, json!({ "type": "SYNC", "version": 1 }));
    server.put("b", "1").await;
    server.put("a", "2").await;
    let added = stream.next().await.unwrap();
    assert_eq!((added.id, added.name.as_str()), (Some(2), "change"));
    assert_eq!(added.data["type"], "ADDED");
    assert_eq!(added.data["object"]["metadata"]["name"], "b");
    assert_eq!(stream.next().await.unwrap().data["type"], "MODIFIED");
    let list = server.get("/api/v1alpha1/configmaps").await.json();
    let version = list["metadata"]["resourceVersion"].as_u64().unwrap();
    drop(stream);
    // No stream is open for a while.
    server.put("c", "1").await;
    let mut later = server.watch(MAPS, Some(version)).await;
    later.next().await.unwrap();
    assert_eq!(later.next().await.unwrap().data["object"]["metadata"]["name"], "c");
    let mut all = server.watch("/api/v1alpha1/events", Some(0)).await;
    for id in [0, 1, 2, 3, 4] {
        assert_eq!(all.next().await.unwrap().id, Some(id));
    }
    let mut by_parameter = server.watch(&format!("{MAPS}&resourceVersion=3"), None).await;
    by_parameter.next().await.unwrap();
    assert_eq!(by_parameter.next().await.unwrap().id, Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_version_returns_resync() {
    let server = start_server().await;
    server.put("a", "1").await;
    let mut stream = server.watch(MAPS, Some(99)).await;
    assert_eq!(stream.next().await.unwrap().name, "resync");
    let words = HttpRequest::get(MAPS).token(server.admin()).header("last-event-id", "soon");
    assert_eq!(Events::try_open(server.address, words).await.err().unwrap().status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_change_log_returns_resync() {
    let server = start_server().await;
    for name in ["a", "b", "c", "d"] {
        server.put(name, "1").await;
    }
    server.store.oldest.store(4, Ordering::Relaxed);
    let mut stream = server.watch(MAPS, Some(1)).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    let resync = stream.next().await.unwrap();
    assert_eq!((resync.name.as_str(), resync.id), ("resync", None));
    assert_eq!(stream.next().await, None);
    let mut stored = server.watch(MAPS, Some(3)).await;
    stored.next().await.unwrap();
    assert_eq!(stored.next().await.unwrap().id, Some(4), "stored changes are replayed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watcher_is_told_to_resync_after_skipped_changes() {
    let server = start_server().await;
    server.put("a", "1").await;
    let mut stream = server.watch(MAPS, None).await;
    stream.next().await.unwrap();
    server.put("a", "2").await;
    assert_eq!(stream.next().await.unwrap().id, Some(2));
    // The change log is truncated before the server reads it.
    server.store.oldest.store(4, Ordering::Relaxed);
    server.put("a", "3").await;
    assert_eq!(stream.next().await.unwrap().name, "resync");
    assert_eq!(stream.next().await, None);
    let mut later = server.watch(MAPS, None).await;
    later.next().await.unwrap();
    server.put("a", "4").await;
    assert_eq!(later.next().await.unwrap().id, Some(4), "the new stream continues");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_survives_temporary_failures_of_the_store() {
    let server = start_server().await;
    let mut stream = server.watch(MAPS, None).await;
    stream.next().await.unwrap();
    server.put("a", "1").await;
    assert_eq!(stream.next().await.unwrap().id, Some(1));
    server.store.down.store(true, Ordering::Relaxed);
    let refused = server.execute(HttpRequest::get("/readyz")).await.expect(503);
    assert!(!refused.text().contains("disk full"), "the message of the store goes to the log only");
    server.execute(HttpRequest::get("/healthz")).await.expect(200);
    server.get("/api/v1alpha1/runs").await.expect(503);
    server.store.down.store(false, Ordering::Relaxed);
    server.put("b", "1").await;
    assert_eq!(stream.next().await.unwrap().id, Some(2));
    server.execute(HttpRequest::get("/readyz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_has_selected_objects_and_those_that_leave_the_selection() {
    let server = start_server().await;
    let runs = "/api/agents/runs?watch=1&fieldSelector=status=pending";
    let mut pending = server.watch(runs, None).await;
    let mut elsewhere = server.watch("/api/agents/runs?watch=1&namespace=team", None).await;
    let mut kinds = server.watch("/api/v1alpha1/events?kind=runs,workspaces", None).await;
    for stream in [&mut pending, &mut elsewhere, &mut kinds] {
        assert_eq!(stream.next().await.unwrap().name, "sync");
    }
    server.put("noise", "1").await;
    let mut run = server.run("run-a").await;
    assert_eq!(pending.next().await.unwrap().data["type"], "ADDED");
    run.status["phase"] = json!("queued");
    server.store.commit(vec![Write::Status(run)], moment()).await.unwrap();
    let left = pending.next().await.unwrap();
    assert_eq!(left.data["type"], "LEFT");
    assert_eq!(left.data["object"]["metadata"]["name"], "run-a");
    assert!(left.data["object"]["spec"].is_null());
    assert_eq!(kinds.next().await.unwrap().id, Some(2), "the stream has no config maps");
    assert_eq!(kinds.next().await.unwrap().data["object"]["status"]["phase"], "queued");
    let mut object = server.store.get(Kind::ConfigMap, "default", "noise").await.unwrap().unwrap();
    object.metadata.namespace = "team".to_owned();
    object.kind = Kind::AgentDispatchRun;
    server.store.commit(vec![Write::Create(object)], moment()).await.unwrap();
    let first = elsewhere.next().await.unwrap();
    assert_eq!(
        first.data["object"]["metadata"]["namespace"], "team",
        "the first event of this namespace"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_ends_when_its_token_is_revoked() {
    let server =
        start_server_with(|limits| limits.heartbeat = std::time::Duration::from_millis(50)).await;
    let viewer = &server.tokens[&TokenScope::Viewer];
    let mut stream = Events::open(server.address, HttpRequest::get(MAPS).token(viewer)).await;
    let mut other = server.watch(MAPS, None).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    assert_eq!(other.next().await.unwrap().name, "sync");
    let mut record = server.store.tokens().await.unwrap();
    record.retain(|record| record.scope == TokenScope::Viewer);
    let mut record = record.remove(0);
    record.revoked_at = Some(moment());
    server.store.put_token(record).await.unwrap();
    assert_eq!(stream.next().await.unwrap().name, "end");
    assert_eq!(stream.next().await, None);
    server.put("a", "1").await;
    assert_eq!(other.next().await.unwrap().name, "change", "other streams continue");
    // Heartbeats are comments, which the client skips.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    server.put("a", "2").await;
    assert_eq!(other.next().await.unwrap().name, "change");
    assert!(other.heartbeats > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_streams_is_limited() {
    let server = start_server_with(|limits| limits.max_streams = 2).await;
    let first = server.watch(MAPS, None).await;
    let _second = server.watch(MAPS, None).await;
    let request = HttpRequest::get(MAPS).token(server.admin());
    let refused = Events::try_open(server.address, request.clone()).await.err().unwrap();
    assert_eq!(refused.status, 503);
    drop(first);
    for _ in 0..200 {
        if Events::try_open(server.address, request.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        // The server notices a disconnect only when it writes.
        server.put("a", "1").await;
    }
    panic!("the slot is never released");
}

/// Heartbeats also check the token; this test has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_ends_its_streams_at_once() {
    let server = start_server_with(|limits| {
        limits.heartbeat = std::time::Duration::from_secs(3_600);
        limits.token_check = std::time::Duration::from_secs(3_600);
    })
    .await;
    server.run("run-a").await;
    let body = json!({ "actor": "grace", "scope": "viewer" });
    let created = server.send("POST", "/api/v1alpha1/tokens", &body).await.expect(201).json();
    let token = created["token"].as_str().unwrap();
    let mut streams = Vec::new();
    for path in [MAPS, "/api/agents/runs/run-a/events?watch=1"] {
        let mut stream = Events::open(server.address, HttpRequest::get(path).token(token)).await;
        assert_eq!(stream.next().await.unwrap().name, "sync");
        streams.push(stream);
    }
    let mut other = server.watch(MAPS, None).await;
    assert_eq!(other.next().await.unwrap().name, "sync");
    let path = format!("/api/v1alpha1/tokens/{}", created["record"]["id"].as_str().unwrap());
    server.execute(HttpRequest::new("DELETE", &path).token(server.admin())).await.expect(200);
    for mut stream in streams {
        let end = stream.next().await.unwrap();
        assert_eq!(end.name, "end");
        assert_eq!(end.data["message"], "the token is no longer valid");
        assert_eq!(stream.next().await, None);
    }
    server.put("a", "1").await;
    assert_eq!(other.next().await.unwrap().name, "change", "other streams continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_that_another_process_revokes_ends_its_streams() {
    let server = start_server_with(|limits| {
        limits.heartbeat = std::time::Duration::from_secs(3_600);
        limits.token_check = std::time::Duration::from_millis(20);
    })
    .await;
    let viewer = &server.tokens[&TokenScope::Viewer];
    let mut stream = Events::open(server.address, HttpRequest::get(MAPS).token(viewer)).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    let records = server.store.tokens().await.unwrap();
    let mut record = records.into_iter().find(|one| one.scope == TokenScope::Viewer).unwrap();
    record.revoked_at = Some(moment());
    server.store.put_token(record).await.unwrap();
    assert_eq!(stream.next().await.unwrap().name, "end");
    assert_eq!(stream.next().await, None);
}
