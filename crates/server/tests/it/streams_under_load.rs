//! Streams while others write: no gap, nothing twice, and nobody waits for the slow.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore;
use bailiwick_testkit::random::Random;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Ask, Events};
use crate::place::{place, place_with};

const WRITES: u64 = 300;

/// Reads to the last version, breaking off and coming back at random; gives the ids in order.
async fn read(address: std::net::SocketAddr, ask: Ask, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut ids: Vec<u64> = Vec::new();
    let mut last = 0;
    while last < WRITES {
        let ask = ask.clone().header("last-event-id", last);
        let mut events = Events::open(address, ask).await;
        let most = random.below(60) + 1;
        for _ in 0..most {
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
async fn whoever_breaks_off_and_comes_back_misses_nothing_and_sees_nothing_twice() {
    let place = Arc::new(place_with(|limits| limits.per_token.burst = 100_000.0).await);
    let mut random = Random::rotating("streams");
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let ask = Ask::get("/api/v1alpha1/events").token(place.admin());
            tokio::spawn(read(place.address, ask, random.number()))
        })
        .collect();
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let place = place.clone();
            tokio::spawn(async move {
                for number in 0..WRITES / 3 {
                    place.put(&format!("w{writer}-{}", number % 7), &number.to_string()).await;
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
    let wanted: Vec<u64> = (1..=WRITES).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watcher_is_dropped_and_can_replay_and_holds_nobody_up() {
    let place = place_with(|limits| {
        limits.behind = 16;
        limits.stall_time = Duration::from_millis(500);
    })
    .await;
    // A watcher that never reads: its socket fills up.
    let mut stuck = TcpStream::connect(place.address).await.unwrap();
    let ask = Ask::get("/api/v1alpha1/events").token(place.admin());
    stuck.write_all(&ask.wire(place.address)).await.unwrap();
    let mut quick = place.watch("/api/v1alpha1/events", None).await;
    quick.next().await.unwrap();
    let long = "x".repeat(256 * 1024);
    let (tell, mut read) = tokio::sync::watch::channel(0);
    let reader = tokio::spawn(async move {
        let mut ids = Vec::new();
        while ids.len() < 40 {
            ids.push(quick.next().await.unwrap().id.unwrap());
            tell.send_replace(ids.len());
        }
        ids
    });
    for number in 0..40 {
        place.put(&format!("n{number}"), &long).await;
        // A person who reads keeps up; one who does not, does not hold the writer.
        read.wait_for(|read| number < read + 8).await.unwrap();
    }
    assert_eq!(reader.await.unwrap(), (1..=40).collect::<Vec<u64>>());
    // Who does not read is cut off, and its place given back.
    let mut left = false;
    for _ in 0..300 {
        let figures = place.get("/metrics").await.text();
        left = figures.contains("bailiwick_watchers 0\n");
        if left {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(left, "the stuck watcher is still there");
    let mut again = place.watch("/api/v1alpha1/events", Some(0)).await;
    again.next().await.unwrap();
    for id in 1..=40 {
        assert_eq!(again.next().await.unwrap().id, Some(id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_watcher_saw_is_what_the_store_has() {
    let place = place().await;
    let mut watcher = place.watch("/api/v1alpha1/configmaps?watch=1", Some(0)).await;
    watcher.next().await.unwrap();
    for number in 0..30 {
        place.put(&format!("n{}", number % 4), &number.to_string()).await;
    }
    let mut seen = Vec::new();
    for _ in 0..30 {
        seen.push(watcher.next().await.unwrap().data);
    }
    let kept = place.store.changes(0, 100).await.unwrap();
    let kept: Vec<_> = kept.iter().map(|change| serde_json::to_value(change).unwrap()).collect();
    assert_eq!(seen, kept);
}
