//! Bytes are deleted with the last object that names them, and not before.

use std::sync::Arc;

use bailiwick_fleet::ports::{FleetStore, Write};
use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;

use super::worker::plain;
use crate::test_database::TestDatabase;

const BYTES: &[u8] = b"the same bytes";

fn delete(kind: Kind, name: &str) -> Write {
    let (namespace, name) = ("default".to_owned(), name.to_owned());
    Write::Delete { kind, namespace, name, version: 0 }
}

/// Repeatedly creates an object with its bytes and deletes it; the bytes exist as long as the object does.
async fn create_and_delete(store: Arc<Store>, task: usize, rounds: usize) -> usize {
    let digest = Sha256Hex::of(BYTES).to_string();
    let mut deletions = 0;
    for round in 0..rounds {
        let name = format!("of-{task}-{round}");
        let object = plain(Kind::ConfigMap, &name, json!({ "data": { "digest": digest } }));
        let bytes = Write::Blob { digest: digest.clone(), bytes: BYTES.to_vec() };
        let now = Moment::from_millis(1);
        store.commit(vec![bytes, Write::Create(object)], now).await.unwrap();
        assert_eq!(store.blob(&digest).await.unwrap().as_deref(), Some(BYTES), "{name}");
        store.commit(vec![delete(Kind::ConfigMap, &name)], now).await.unwrap();
        deletions += usize::from(store.blob(&digest).await.unwrap().is_none());
    }
    deletions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bytes_exist_as_long_as_any_object_names_them() {
    let database = TestDatabase::new();
    // Two stores behave like two processes.
    let stores = [Arc::new(database.open().await), Arc::new(database.open().await)];
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        tasks.spawn(create_and_delete(Arc::clone(&stores[task % 2]), task, 40));
    }
    let mut deletions = 0;
    while let Some(result) = tasks.join_next().await {
        deletions += result.unwrap();
    }
    // Positive control: the bytes were deleted at times. At the end they are deleted.
    assert!(deletions > 0);
    let digest = Sha256Hex::of(BYTES).to_string();
    assert_eq!(stores[0].blob(&digest).await.unwrap(), None);
}

/// The index of an older program has no digests.
#[tokio::test]
async fn bytes_of_an_older_program_are_not_deleted_too_early() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let digest = Sha256Hex::of(BYTES).to_string();
    let naming = |name: &str| plain(Kind::ConfigMap, name, json!({ "data": { "digest": digest } }));
    let bytes = Write::Blob { digest: digest.clone(), bytes: BYTES.to_vec() };
    let writes = vec![bytes, Write::Create(naming("one")), Write::Create(naming("two"))];
    store.commit(writes, Moment::from_millis(1)).await.unwrap();
    let mut connection = database.connect().await;
    for statement in [
        "DELETE FROM resource_terms WHERE term = '#digest'",
        "UPDATE resource_index SET fields = 'of an older program'",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    let reopened = database.open().await;
    reopened.commit(vec![delete(Kind::ConfigMap, "one")], Moment::from_millis(2)).await.unwrap();
    assert_eq!(reopened.blob(&digest).await.unwrap().as_deref(), Some(BYTES));
    reopened.commit(vec![delete(Kind::ConfigMap, "two")], Moment::from_millis(3)).await.unwrap();
    assert_eq!(reopened.blob(&digest).await.unwrap(), None);
}

/// Bytes that lose and gain a reference in the same commit are kept.
#[tokio::test]
async fn bytes_without_a_reference_are_deleted() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let (first, second) =
        (Sha256Hex::of(b"first").to_string(), Sha256Hex::of(b"second").to_string());
    let naming =
        |name: &str, digest: &str| plain(Kind::ConfigMap, name, json!({ "data": { "d": digest } }));
    let bytes = |text: &str| Write::Blob {
        digest: Sha256Hex::of(text).to_string(),
        bytes: text.as_bytes().to_vec(),
    };
    let at = Moment::from_millis(1);
    let exists = async |digest: &str| store.blob(digest).await.unwrap().is_some();
    store.commit(vec![bytes("first"), Write::Create(naming("one", &first))], at).await.unwrap();
    let replacement = vec![bytes("second"), Write::Replace(naming("one", &second))];
    store.commit(replacement, at).await.unwrap();
    assert_eq!((exists(&first).await, exists(&second).await), (false, true));
    // Another object references it in the same commit, in any order.
    let moved =
        vec![Write::Replace(naming("one", "nothing")), Write::Create(naming("two", &second))];
    store.commit(moved, at).await.unwrap();
    assert!(exists(&second).await);
    let mut shown = naming("two", &second);
    shown.status = json!({ "shown": first });
    store.commit(vec![bytes("first"), Write::Status(shown)], at).await.unwrap();
    assert_eq!((exists(&first).await, exists(&second).await), (true, true));
    // A status can name bytes too.
    store.commit(vec![Write::Status(naming("two", &second))], at).await.unwrap();
    assert_eq!((exists(&first).await, exists(&second).await), (false, true));
}
