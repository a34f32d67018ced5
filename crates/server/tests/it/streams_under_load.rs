//! Streams during concurrent writes: no gaps, no duplicates, no waiting for slow watchers.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore;
use bailiwick_testkit::random::Random;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Events, HttpRequest};
use crate::test_server::{start_server, start_server_with};

const WRITES: u64 = 300;

/// Reads up to the last version with random reconnects; returns the ids in order.
async fn read(address: std::net::SocketAddr, request: HttpRequest, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut ids: Vec<u64> = Vec::new();
    let mut last = 0;
    while last < WRITES {
        let request = request.clone().header("last-event-id", last);
        let mut events = Events::open(address, request).await;
        let max_events = random.below(60) + 1;
        for _ in 0..max_events {
            let Some(event) = events.next().await else { break };
            if event.name == "change" {
                last = event.id.unwrap();
                ids.push(last);
            }
            if last >= WRITES {
                break;
            }
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnecting_watcher_gets_every_change_exactly_once() {
    let server = Arc::new(start_server_with(|limits| limits.per_token.burst = 100_000.0).await);
    let mut random = Random::rotating("streams");
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let request = HttpRequest::get("/api/v1alpha1/events").token(server.admin());
            tokio::spawn(read(server.address, request, random.number()))
        })
        .collect();
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let server = server.clone();
            tokio::spawn(async move {
                for number in 0..WRITES / 3 {
                    server.put(&format!("w{writer}-{}", number % 7), &number.to_string()).await;
                    if number % 5 == 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let expected: Vec<u64> = (1..=WRITES).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_watcher_is_closed_and_delays_no_other_watcher() {
    let server = start_server_with(|limits| {
        limits.max_stream_lag = 16;
        limits.write_timeout = Duration::from_millis(500);
    })
    .await;
    // A watcher that never reads: its socket fills up.
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    let request = HttpRequest::get("/api/v1alpha1/events").token(server.admin());
    stuck.write_all(&request.wire(server.address)).await.unwrap();
    let mut quick = server.watch("/api/v1alpha1/events", None).await;
    quick.next().await.unwrap();
    let long = "x".repeat(256 * 1024);
    let (progress_sender, mut progress) = tokio::sync::watch::channel(0);
    let reader = tokio::spawn(async move {
        let mut ids = Vec::new();
        while ids.len() < 40 {
            ids.push(quick.next().await.unwrap().id.unwrap());
            progress_sender.send_replace(ids.len());
        }
        ids
    });
    for number in 0..40 {
        server.put(&format!("n{number}"), &long).await;
        // A reading watcher keeps up; one that does not read does not block the writer.
        progress.wait_for(|progress| number < progress + 8).await.unwrap();
    }
    assert_eq!(reader.await.unwrap(), (1..=40).collect::<Vec<u64>>());
    // The watcher that does not read is closed, and its slot is released.
    let mut disconnected = false;
    for _ in 0..300 {
        let metrics = server.get("/metrics").await.text();
        disconnected = metrics.contains("bailiwick_watchers 0\n");
        if disconnected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(disconnected, "the stuck watcher is still connected");
    let mut resumed = server.watch("/api/v1alpha1/events", Some(0)).await;
    resumed.next().await.unwrap();
    for id in 1..=40 {
        assert_eq!(resumed.next().await.unwrap().id, Some(id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_watcher_equal_the_stored_changes() {
    let server = start_server().await;
    let mut watcher = server.watch("/api/v1alpha1/configmaps?watch=1", Some(0)).await;
    watcher.next().await.unwrap();
    for number in 0..30 {
        server.put(&format!("n{}", number % 4), &number.to_string()).await;
    }
    let mut received = Vec::new();
    for _ in 0..30 {
        received.push(watcher.next().await.unwrap().data);
    }
    let stored = server.store.changes(0, 100).await.unwrap();
    let stored: Vec<_> =
        stored.iter().map(|change| serde_json::to_value(change).unwrap()).collect();
    assert_eq!(received, stored);
}
