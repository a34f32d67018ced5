//! Concurrent webhooks share one transaction.

use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore as _, Received, Selection};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use tokio::task::JoinSet;

use super::objects::delivery;
use crate::test_database::TestDatabase;

const MANY: usize = 24;

async fn at_once(store: &Arc<Store>, names: impl Iterator<Item = String>) -> Vec<Received> {
    let mut tasks = JoinSet::new();
    for name in names {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            store.receive(delivery(&name, name.as_bytes(), Moment::from_millis(7))).await.unwrap()
        });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn concurrent_webhooks_share_one_transaction() {
    let database = TestDatabase::new();
    let store = Arc::new(database.open().await);
    let before = database.transactions().await;
    for number in 0..MANY {
        let answers = at_once(&store, [format!("alone-{number}")].into_iter()).await;
        assert_eq!(answers, [Received::New]);
    }
    let transactions = database.transactions().await - before;
    assert_eq!(transactions, MANY, "one transaction for each webhook");
    let names = (0..MANY).map(|number| format!("together-{number}"));
    assert_eq!(at_once(&store, names).await, [Received::New; MANY]);
    let together = database.transactions().await - before - transactions;
    assert_eq!(together, 1);
    let page = store_list(&store).await;
    assert_eq!(page.len(), 2 * MANY);
}

async fn store_list(store: &Store) -> Vec<String> {
    let selection = Selection::of(Kind::WebhookDelivery).field("evaluated", "false");
    let page = bailiwick_fleet::ports::FleetStore::list(store, &selection).await.unwrap();
    page.objects.into_iter().map(|object| object.metadata.name).collect()
}

#[tokio::test]
async fn concurrent_copies_of_a_webhook_are_stored_once_and_counted() {
    let database = TestDatabase::new();
    let store = Arc::new(database.open().await);
    let answers = at_once(&store, std::iter::repeat_n("same".to_owned(), MANY)).await;
    let first_deliveries = answers.iter().filter(|answer| **answer == Received::New).count();
    let repeated = answers.iter().filter(|answer| **answer == Received::Redelivered).count();
    assert_eq!((first_deliveries, repeated), (1, MANY - 1));
    let found =
        bailiwick_fleet::ports::FleetStore::get(&*store, Kind::WebhookDelivery, "default", "same");
    let object = found.await.unwrap().unwrap();
    assert_eq!(object.status["redeliveries"], serde_json::json!(MANY - 1));
    let mut contradiction = delivery("same", b"other bytes", Moment::from_millis(8));
    assert_eq!(store.receive(contradiction.clone()).await.unwrap(), Received::ConflictingBytes);
    assert_eq!(
        store.blob(&contradiction.spec.payload_digest).await.unwrap(),
        None,
        "contradicting bytes were accepted"
    );
    contradiction.name = "another".to_owned();
    assert_eq!(store.receive(contradiction).await.unwrap(), Received::New);
}

/// A forged delivery, a contradiction and a repetition in one batch: each has its own answer.
#[tokio::test]
async fn invalid_delivery_in_a_batch_does_not_affect_the_others() {
    let database = TestDatabase::new();
    let store = Arc::new(database.open().await);
    let before = database.transactions().await;
    let at = Moment::from_millis(7);
    let (first, repetition) = (delivery("twice", b"same", at), delivery("twice", b"same", at));
    let contradiction = delivery("twice", b"other", at);
    let mut forged = delivery("forged", b"forged", at);
    forged.spec.payload_digest.clone_from(&first.spec.payload_digest);
    let shares_bytes = delivery("shares", b"same", at);
    let last = delivery("last", b"last", at);
    let mut tasks = Vec::new();
    for incoming in [first, forged, contradiction, repetition, shares_bytes, last] {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.receive(incoming).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap().map_err(|error| error.to_string()));
    }
    assert_eq!(database.transactions().await - before, 1, "they did not share one transaction");
    let refused = answers.remove(1).unwrap_err();
    assert!(refused.contains("other bytes"), "{refused}");
    let found = [
        Received::New,
        Received::ConflictingBytes,
        Received::Redelivered,
        Received::New,
        Received::New,
    ];
    assert_eq!(answers, found.map(Ok));
    assert_eq!(store_list(&store).await, ["twice", "shares", "last"], "in the order of arrival");
}

#[tokio::test]
async fn caller_that_stops_waiting_does_not_affect_the_others() {
    let database = TestDatabase::new();
    let store = Arc::new(database.open().await);
    for round in 0..50 {
        let delivery_of = |task: &str| {
            let name = format!("{task}-{round}");
            delivery(&name, name.as_bytes(), Moment::from_millis(round))
        };
        let task = |task: &str| {
            let (store, delivery_of) = (Arc::clone(&store), delivery_of(task));
            tokio::spawn(async move { store.receive(delivery_of).await })
        };
        let (aborted, waiting) = (task("aborted"), task("waiting"));
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        aborted.abort();
        assert_eq!(waiting.await.unwrap().unwrap(), Received::New);
        assert_eq!(store.receive(delivery_of("waiting")).await.unwrap(), Received::Redelivered);
    }
}
