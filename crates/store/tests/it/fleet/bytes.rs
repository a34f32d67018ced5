//! Bytes go with the last object that names them, and never from under one that does.

use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;

use super::worker::plain;
use crate::ledger_in_a_file::Place;

const BYTES: &[u8] = b"the same bytes";

fn delete(kind: Kind, name: &str) -> Write {
    let (namespace, name) = ("default".to_owned(), name.to_owned());
    Write::Delete { kind, namespace, name, version: 0 }
}

/// Keeps an object with its bytes and lets it go again, so often; the bytes are there as long as it is.
async fn come_and_go(store: Arc<Store>, who: usize, rounds: usize) -> usize {
    let digest = Sha256Hex::of(BYTES).to_string();
    let mut alone = 0;
    for round in 0..rounds {
        let name = format!("of-{who}-{round}");
        let object = plain(Kind::ConfigMap, &name, json!({ "data": { "digest": digest } }));
        let bytes = Write::Blob { digest: digest.clone(), bytes: BYTES.to_vec() };
        let now = Moment::from_millis(1);
        store.commit(vec![bytes, Write::Create(object)], now).await.unwrap();
        assert_eq!(store.blob(&digest).await.unwrap().as_deref(), Some(BYTES), "{name}");
        store.commit(vec![delete(Kind::ConfigMap, &name)], now).await.unwrap();
        alone += usize::from(store.blob(&digest).await.unwrap().is_none());
    }
    alone
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bytes_are_there_as_long_as_any_object_names_them() {
    let place = Place::new();
    // Two of them are as two processes are.
    let stores = [Arc::new(place.open().await), Arc::new(place.open().await)];
    let mut all = tokio::task::JoinSet::new();
    for who in 0..4 {
        all.spawn(come_and_go(Arc::clone(&stores[who % 2]), who, 40));
    }
    let mut alone = 0;
    while let Some(one) = all.join_next().await {
        alone += one.unwrap();
    }
    // It did happen that they went, and at the end they are gone.
    assert!(alone > 0);
    let digest = Sha256Hex::of(BYTES).to_string();
    assert_eq!(stores[0].blob(&digest).await.unwrap(), None);
}

/// Bytes that were kept before it was known who names them are known to be needed.
#[tokio::test]
async fn bytes_of_an_older_program_are_known_to_be_needed() {
    let place = Place::new();
    let store = place.open().await;
    let digest = Sha256Hex::of(BYTES).to_string();
    let naming = |name: &str| plain(Kind::ConfigMap, name, json!({ "data": { "digest": digest } }));
    let bytes = Write::Blob { digest: digest.clone(), bytes: BYTES.to_vec() };
    let writes = vec![bytes, Write::Create(naming("one")), Write::Create(naming("two"))];
    store.commit(writes, Moment::from_millis(1)).await.unwrap();
    let mut connection = place.connect().await;
    for gone in [
        "DELETE FROM resource_terms WHERE term = '#digest'",
        "UPDATE resource_index SET fields = 'of an older program'",
    ] {
        sqlx::query(gone).execute(&mut connection).await.unwrap();
    }
    let again = place.open().await;
    again.commit(vec![delete(Kind::ConfigMap, "one")], Moment::from_millis(2)).await.unwrap();
    assert_eq!(again.blob(&digest).await.unwrap().as_deref(), Some(BYTES));
    again.commit(vec![delete(Kind::ConfigMap, "two")], Moment::from_millis(3)).await.unwrap();
    assert_eq!(again.blob(&digest).await.unwrap(), None);
}

/// Whoever changes an object so that it names other bytes lets the old ones go, and nobody else's; what goes and
/// comes in one commit stays.
#[tokio::test]
async fn bytes_that_an_object_names_no_more_go_unless_another_names_them() {
    let place = Place::new();
    let store = place.open().await;
    let (first, second) =
        (Sha256Hex::of(b"first").to_string(), Sha256Hex::of(b"second").to_string());
    let named =
        |name: &str, digest: &str| plain(Kind::ConfigMap, name, json!({ "data": { "d": digest } }));
    let bytes = |text: &str| Write::Blob {
        digest: Sha256Hex::of(text).to_string(),
        bytes: text.as_bytes().to_vec(),
    };
    let at = Moment::from_millis(1);
    let kept = async |digest: &str| store.blob(digest).await.unwrap().is_some();
    store.commit(vec![bytes("first"), Write::Create(named("one", &first))], at).await.unwrap();
    let other = vec![bytes("second"), Write::Replace(named("one", &second))];
    store.commit(other, at).await.unwrap();
    assert_eq!((kept(&first).await, kept(&second).await), (false, true));
    // Another takes it up in the same commit, however they are ordered.
    let moved = vec![Write::Replace(named("one", "nothing")), Write::Create(named("two", &second))];
    store.commit(moved, at).await.unwrap();
    assert!(kept(&second).await);
    let mut shown = named("two", &second);
    shown.status = json!({ "shown": first });
    store.commit(vec![bytes("first"), Write::Status(shown)], at).await.unwrap();
    assert_eq!((kept(&first).await, kept(&second).await), (true, true));
    // A status names bytes as well.
    store.commit(vec![Write::Status(named("two", &second))], at).await.unwrap();
    assert_eq!((kept(&first).await, kept(&second).await), (false, true));
}
