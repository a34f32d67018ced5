//! Several processes on one database: no update is lost, and each sees the changes of the others.

use bailiwick_fleet::ports::{Change, FleetStore as _, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_testkit::{Depth, figure};
use serde_json::json;

use super::worker::{COUNTER, Worker, increment, plain};
use crate::test_database::{TestDatabase, block_on};

#[test]
fn concurrent_increments_of_processes_lose_no_update() {
    let database = TestDatabase::new();
    let counter = plain(Kind::ConfigMap, COUNTER, json!({}));
    block_on(async {
        let store = database.open().await;
        store.commit(vec![Write::Create(counter)], Moment::default()).await.unwrap();
    });
    let times = Depth::from_env().cases(250);
    let mut workers: Vec<Worker> = (0..8).map(|_| Worker::start(&database.address())).collect();
    for worker in &mut workers {
        worker.order(&format!("increment {times}"));
    }
    let mut conflicts = 0;
    for worker in &mut workers {
        let answer = worker.answer().unwrap();
        conflicts += answer.strip_prefix("conflicts ").unwrap().parse::<u64>().unwrap();
    }
    workers.into_iter().for_each(Worker::finish);
    block_on(async {
        let store = database.open().await;
        // Also tasks of this process.
        let tasks = (0..8).map(|_| increment(&store, 5));
        let mut of_tasks = 0;
        for count in join_all(tasks).await {
            of_tasks += count;
        }
        let found = store.fleet_get(COUNTER).await;
        assert_eq!(found["count"], json!(8 * times + 40));
        let changes = store.changes(0, usize::MAX).await.unwrap();
        let counts: Vec<u64> =
            changes.iter().filter_map(|change| change.object.status["count"].as_u64()).collect();
        assert_eq!(counts, (1..=8 * times + 40).collect::<Vec<u64>>());
        figure(&format!(
            "fleet: 8 processes added one {times} times each to one object: {} in the end, after \
             {conflicts} conflicts; 8 tasks 5 times each, after {of_tasks}",
            found["count"]
        ));
        assert!(conflicts + of_tasks > 0, "no conflict occurred: this proves nothing");
    });
}

async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.map(Box::pin).collect();
    let mut results: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in pinned.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        match results.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

trait Status {
    async fn fleet_get(&self, name: &str) -> serde_json::Value;
}

impl Status for bailiwick_store::Store {
    async fn fleet_get(&self, name: &str) -> serde_json::Value {
        let found = bailiwick_fleet::ports::FleetStore::get(self, Kind::ConfigMap, "default", name);
        found.await.unwrap().unwrap().status
    }
}

#[test]
fn two_processes_see_the_changes_of_each_other() {
    const ROUNDS: usize = 20;
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let mut worker = Worker::start(&database.address());
        worker.order(&format!("echo {ROUNDS}"));
        let mut changes: Vec<Change> = Vec::new();
        for round in 0..ROUNDS {
            let ping = plain(Kind::ConfigMap, &format!("ping-{round}"), json!({}));
            store.commit(vec![Write::Create(ping)], Moment::default()).await.unwrap();
            let pong = format!("pong-{round}");
            while !changes.iter().any(|change| change.object.metadata.name == pong) {
                let after = changes.last().map_or(0, |change| change.version);
                store.wait_for_change(after, 60_000).await;
                let new = store.changes(after, 2).await.unwrap();
                assert!(!new.is_empty(), "the answer of the other process was not seen");
                changes.extend(new);
            }
        }
        assert_eq!(changes, store.changes(0, usize::MAX).await.unwrap());
        assert_eq!(changes.len(), 2 * ROUNDS);
        let answer = worker.answer().unwrap();
        let versions: Vec<String> = (1..2 * ROUNDS).map(|number| number.to_string()).collect();
        // The worker ends after the last ping, so it need not see its own last answer.
        let of_worker = answer.strip_prefix("saw ").unwrap();
        assert!(of_worker.starts_with(&versions.join(",")), "{of_worker}");
        worker.finish();
    });
}

#[tokio::test]
async fn waiting_for_a_change_ends_after_the_timeout() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let started = std::time::Instant::now();
    store.wait_for_change(0, 60).await;
    assert!(started.elapsed().as_millis() >= 60, "it returned although nothing has changed");
    let object = plain(Kind::ConfigMap, "one", json!({}));
    store.commit(vec![Write::Create(object)], Moment::default()).await.unwrap();
    // This would hang if the existing change were not seen.
    store.wait_for_change(0, u64::MAX).await;
    // A second store on the same file, which has read nothing yet, sees it too.
    database.open().await.wait_for_change(0, u64::MAX).await;
}

/// Aborted tasks leave no lock and no partial transaction.
#[tokio::test]
async fn aborted_writer_leaves_no_partial_transaction() {
    let database = TestDatabase::new();
    let store = std::sync::Arc::new(database.open().await);
    let mut aborted = 0;
    for round in 0..150_u64 {
        let task_store = std::sync::Arc::clone(&store);
        let task = tokio::spawn(async move {
            let side = |side: &str| {
                Write::Create(plain(Kind::ConfigMap, &format!("{side}-{round}"), json!({})))
            };
            task_store.commit(vec![side("left"), side("right")], Moment::default()).await.unwrap();
        });
        tokio::time::sleep(std::time::Duration::from_micros(round * 20)).await;
        task.abort();
        aborted += u64::from(task.await.is_err());
    }
    let after = plain(Kind::ConfigMap, "after", json!({}));
    store.commit(vec![Write::Create(after)], Moment::default()).await.unwrap();
    let changes = store.changes(0, usize::MAX).await.unwrap();
    let names: Vec<&str> =
        changes.iter().map(|change| change.object.metadata.name.as_str()).collect();
    for pair in names[..names.len() - 1].chunks(2) {
        let number = pair[0].strip_prefix("left-").unwrap();
        assert_eq!(pair[1], format!("right-{number}"));
    }
    assert!(aborted > 0, "no task was aborted during a write: this proves nothing");
}
