//! Streams: where they begin, what they show, how they end.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{FleetStore, TokenScope, Write};
use bailiwick_resources::Kind;
use serde_json::json;

use crate::client::{Ask, Events};
use crate::place::{moment, place, place_with};

const MAPS: &str = "/api/v1alpha1/configmaps?watch=1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_begins_with_where_it_is_and_goes_on_from_where_it_was() {
    let place = place().await;
    place.put("a", "1").await;
    let mut stream = place.watch(MAPS, None).await;
    let sync = stream.next().await.unwrap();
    assert_eq!((sync.name.as_str(), sync.id), ("sync", Some(1)));
    assert_eq!(sync.data, json!({ "type": "SYNC", "version": 1 }));
    place.put("b", "1").await;
    place.put("a", "2").await;
    let added = stream.next().await.unwrap();
    assert_eq!((added.id, added.name.as_str()), (Some(2), "change"));
    assert_eq!(added.data["type"], "ADDED");
    assert_eq!(added.data["object"]["metadata"]["name"], "b");
    assert_eq!(stream.next().await.unwrap().data["type"], "MODIFIED");
    let list = place.get("/api/v1alpha1/configmaps").await.json();
    let version = list["metadata"]["resourceVersion"].as_u64().unwrap();
    drop(stream);
    // Nobody looks for a while.
    place.put("c", "1").await;
    let mut later = place.watch(MAPS, Some(version)).await;
    later.next().await.unwrap();
    assert_eq!(later.next().await.unwrap().data["object"]["metadata"]["name"], "c");
    let mut all = place.watch("/api/v1alpha1/events", Some(0)).await;
    for id in [0, 1, 2, 3, 4] {
        assert_eq!(all.next().await.unwrap().id, Some(id));
    }
    let mut by_parameter = place.watch(&format!("{MAPS}&resourceVersion=3"), None).await;
    by_parameter.next().await.unwrap();
    assert_eq!(by_parameter.next().await.unwrap().id, Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_never_was_is_answered_with_resync() {
    let place = place().await;
    place.put("a", "1").await;
    let mut stream = place.watch(MAPS, Some(99)).await;
    assert_eq!(stream.next().await.unwrap().name, "resync");
    let words = Ask::get(MAPS).token(place.admin()).header("last-event-id", "soon");
    assert_eq!(Events::try_open(place.address, words).await.err().unwrap().status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_forgotten_are_answered_with_resync() {
    let place = place().await;
    for name in ["a", "b", "c", "d"] {
        place.put(name, "1").await;
    }
    place.store.oldest.store(4, Ordering::Relaxed);
    let mut stream = place.watch(MAPS, Some(1)).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    let resync = stream.next().await.unwrap();
    assert_eq!((resync.name.as_str(), resync.id), ("resync", None));
    assert_eq!(stream.next().await, None);
    let mut kept = place.watch(MAPS, Some(3)).await;
    kept.next().await.unwrap();
    assert_eq!(kept.next().await.unwrap().id, Some(4), "what is kept is replayed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_while_changes_are_missed_is_told() {
    let place = place().await;
    place.put("a", "1").await;
    let mut stream = place.watch(MAPS, None).await;
    stream.next().await.unwrap();
    place.put("a", "2").await;
    assert_eq!(stream.next().await.unwrap().id, Some(2));
    // The log is cut before the server has read it.
    place.store.oldest.store(4, Ordering::Relaxed);
    place.put("a", "3").await;
    assert_eq!(stream.next().await.unwrap().name, "resync");
    assert_eq!(stream.next().await, None);
    let mut later = place.watch(MAPS, None).await;
    later.next().await.unwrap();
    place.put("a", "4").await;
    assert_eq!(later.next().await.unwrap().id, Some(4), "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_outlives_a_store_that_fails_for_a_while() {
    let place = place().await;
    let mut stream = place.watch(MAPS, None).await;
    stream.next().await.unwrap();
    place.put("a", "1").await;
    assert_eq!(stream.next().await.unwrap().id, Some(1));
    place.store.down.store(true, Ordering::Relaxed);
    let refused = place.ask(Ask::get("/readyz")).await.expect(503);
    assert!(!refused.text().contains("disk full"), "what a store says of itself is for the log");
    place.ask(Ask::get("/healthz")).await.expect(200);
    place.get("/api/v1alpha1/runs").await.expect(503);
    place.store.down.store(false, Ordering::Relaxed);
    place.put("b", "1").await;
    assert_eq!(stream.next().await.unwrap().id, Some(2));
    place.ask(Ask::get("/readyz")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_shows_what_it_selects_and_what_leaves() {
    let place = place().await;
    let runs = "/api/agents/runs?watch=1&fieldSelector=status=pending";
    let mut pending = place.watch(runs, None).await;
    let mut elsewhere = place.watch("/api/agents/runs?watch=1&namespace=team", None).await;
    let mut kinds = place.watch("/api/v1alpha1/events?kind=runs,workspaces", None).await;
    for stream in [&mut pending, &mut elsewhere, &mut kinds] {
        assert_eq!(stream.next().await.unwrap().name, "sync");
    }
    place.put("noise", "1").await;
    let mut run = place.run("run-a").await;
    assert_eq!(pending.next().await.unwrap().data["type"], "ADDED");
    run.status["phase"] = json!("queued");
    place.store.commit(vec![Write::Status(run)], moment()).await.unwrap();
    let left = pending.next().await.unwrap();
    assert_eq!(left.data["type"], "LEFT");
    assert_eq!(left.data["object"]["metadata"]["name"], "run-a");
    assert!(left.data["object"]["spec"].is_null());
    assert_eq!(kinds.next().await.unwrap().id, Some(2), "the noise is not for it");
    assert_eq!(kinds.next().await.unwrap().data["object"]["status"]["phase"], "queued");
    let mut object = place.store.get(Kind::ConfigMap, "default", "noise").await.unwrap().unwrap();
    object.metadata.namespace = "team".to_owned();
    object.kind = Kind::AgentDispatchRun;
    place.store.commit(vec![Write::Create(object)], moment()).await.unwrap();
    let first = elsewhere.next().await.unwrap();
    assert_eq!(first.data["object"]["metadata"]["namespace"], "team", "and nothing before it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_lives_by_its_token() {
    let place = place_with(|limits| limits.heartbeat = std::time::Duration::from_millis(50)).await;
    let viewer = &place.tokens[&TokenScope::Viewer];
    let mut stream = Events::open(place.address, Ask::get(MAPS).token(viewer)).await;
    let mut other = place.watch(MAPS, None).await;
    assert_eq!(stream.next().await.unwrap().name, "sync");
    assert_eq!(other.next().await.unwrap().name, "sync");
    let mut record = place.store.tokens().await.unwrap();
    record.retain(|record| record.scope == TokenScope::Viewer);
    let mut record = record.remove(0);
    record.revoked_at = Some(moment());
    place.store.put_token(record).await.unwrap();
    assert_eq!(stream.next().await.unwrap().name, "end");
    assert_eq!(stream.next().await, None);
    place.put("a", "1").await;
    assert_eq!(other.next().await.unwrap().name, "change", "the others go on");
    // Heartbeats are comments: they were read over.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    place.put("a", "2").await;
    assert_eq!(other.next().await.unwrap().name, "change");
    assert!(other.heartbeats > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_only_so_many_streams() {
    let place = place_with(|limits| limits.watchers = 2).await;
    let first = place.watch(MAPS, None).await;
    let _second = place.watch(MAPS, None).await;
    let ask = Ask::get(MAPS).token(place.admin());
    let refused = Events::try_open(place.address, ask.clone()).await.err().unwrap();
    assert_eq!(refused.status, 503);
    drop(first);
    for _ in 0..200 {
        if Events::try_open(place.address, ask.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        // Somebody must be written to for the server to notice who is gone.
        place.put("a", "1").await;
    }
    panic!("the place was never given back");
}
