//! Webhooks that come at once share one transaction. How many there were is read from the write-ahead
//! log itself: its frames say which of them ended one.

use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore as _, Received, Selection};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use tokio::task::JoinSet;

use super::objects::delivery;
use crate::ledger_in_a_file::Place;

const MANY: usize = 24;

/// How many transactions the log has.
fn transactions(place: &Place) -> usize {
    let log = std::fs::read(place.path("ledger.db-wal")).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let salts = &log[16..24];
    let frame = 24 + number(8) as usize;
    let frames = (32..log.len().saturating_sub(frame - 1)).step_by(frame);
    frames.filter(|at| log[at + 8..at + 16] == *salts && number(at + 4) != 0).count()
}

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
async fn webhooks_that_come_at_once_share_one_transaction() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let before = transactions(&place);
    for number in 0..MANY {
        let one = at_once(&store, [format!("alone-{number}")].into_iter()).await;
        assert_eq!(one, [Received::New]);
    }
    let alone = transactions(&place) - before;
    assert_eq!(alone, MANY, "the log does not show what it should");
    let names = (0..MANY).map(|number| format!("together-{number}"));
    assert_eq!(at_once(&store, names).await, [Received::New; MANY]);
    let together = transactions(&place) - before - alone;
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
async fn the_same_webhook_many_times_at_once_is_kept_once_and_counted() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let answers = at_once(&store, std::iter::repeat_n("same".to_owned(), MANY)).await;
    let new = answers.iter().filter(|answer| **answer == Received::New).count();
    let again = answers.iter().filter(|answer| **answer == Received::Again).count();
    assert_eq!((new, again), (1, MANY - 1));
    let found =
        bailiwick_fleet::ports::FleetStore::get(&*store, Kind::WebhookDelivery, "default", "same");
    let object = found.await.unwrap().unwrap();
    assert_eq!(object.status["redeliveries"], serde_json::json!(MANY - 1));
    let mut other = delivery("same", b"other bytes", Moment::from_millis(8));
    assert_eq!(store.receive(other.clone()).await.unwrap(), Received::Contradicts);
    assert_eq!(store.blob(&other.spec.payload_digest).await.unwrap(), None, "a lie was kept");
    other.name = "another".to_owned();
    assert_eq!(store.receive(other).await.unwrap(), Received::New);
}

/// One that is bad, a lie and a repetition among others: each has its own answer, and nothing else is lost.
#[tokio::test]
async fn a_bad_one_in_a_group_does_not_harm_the_others() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let before = transactions(&place);
    let at = Moment::from_millis(7);
    let (first, again) = (delivery("twice", b"same", at), delivery("twice", b"same", at));
    let lie = delivery("twice", b"other", at);
    let mut forged = delivery("forged", b"forged", at);
    forged.spec.payload_digest.clone_from(&first.spec.payload_digest);
    let shares_bytes = delivery("shares", b"same", at);
    let last = delivery("last", b"last", at);
    let mut tasks = Vec::new();
    for given in [first, forged, lie, again, shares_bytes, last] {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.receive(given).await }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap().map_err(|error| error.to_string()));
    }
    assert_eq!(transactions(&place) - before, 1, "they did not share one transaction");
    let refused = answers.remove(1).unwrap_err();
    assert!(refused.contains("other bytes"), "{refused}");
    let told =
        [Received::New, Received::Contradicts, Received::Again, Received::New, Received::New];
    assert_eq!(answers, told.map(Ok));
    assert_eq!(store_list(&store).await, ["twice", "shares", "last"], "in the order they came");
}

/// Whoever stops to wait for an answer must not take the others' with it.
#[tokio::test]
async fn a_caller_that_goes_away_does_not_harm_the_others() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    for round in 0..50 {
        let given = |who: &str| {
            let name = format!("{who}-{round}");
            delivery(&name, name.as_bytes(), Moment::from_millis(round))
        };
        let task = |who: &str| {
            let (store, given) = (Arc::clone(&store), given(who));
            tokio::spawn(async move { store.receive(given).await })
        };
        let (gone, stays) = (task("gone"), task("stays"));
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        assert_eq!(stays.await.unwrap().unwrap(), Received::New);
        assert_eq!(store.receive(given("stays")).await.unwrap(), Received::Again);
    }
}
