//! A dump that is made while servers write, restored into an empty database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_fleet::ports::{FleetError, FleetStore, Selection, Write};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use bailiwick_testkit::postgres::PostgresServer;
use serde_json::json;

use crate::fleet::secrets::{VALUE, set, value};
use crate::fleet::worker::plain;
use crate::test_database::{TestDatabase, id, run};

async fn names(store: &Store) -> BTreeSet<String> {
    let selection = Selection { limit: 100_000, ..Selection::of(Kind::ConfigMap) };
    let page = FleetStore::list(store, &selection).await.unwrap();
    page.objects.into_iter().map(|object| object.metadata.name).collect()
}

/// Creates objects one after the other until it is stopped; returns the number of acknowledged ones.
async fn write_until(stop: Arc<AtomicBool>, store: Store) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::SeqCst) {
        let object = plain(Kind::ConfigMap, &format!("during-{count}"), json!({}));
        store.commit(vec![Write::Create(object)], Moment::default()).await.unwrap();
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dump_during_writes_restores_everything_acknowledged_before_it() {
    let server = PostgresServer::shared();
    let database = TestDatabase::new();
    let store = database.open().await;
    store.record(&run("kept"), Some("task")).await.unwrap();
    set(&store, "kept", VALUE).await.unwrap();
    for number in 0..20 {
        let object = plain(Kind::ConfigMap, &format!("before-{number}"), json!({ "n": number }));
        store.commit(vec![Write::Create(object)], Moment::default()).await.unwrap();
    }
    let before = names(&store).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_until(Arc::clone(&stop), database.open().await));
    let name = database.name().to_owned();
    let dump = tokio::task::spawn_blocking(move || server.dump(&name)).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    let written = writer.await.unwrap();
    assert!(written > 0, "positive control: there were writes during the dump");
    let after = names(&store).await;
    store.close().await;

    server.restore(database.name(), &dump);
    let restored = database.open().await;
    let found = names(&restored).await;
    assert!(found.is_superset(&before), "{:?}", before.difference(&found));
    assert!(found.is_subset(&after), "{:?}", found.difference(&after));
    // The dump contains the writes up to one point in time: none is missing in between.
    let during = found.iter().filter(|name| name.starts_with("during-")).count();
    assert!((0..during).all(|number| found.contains(&format!("during-{number}"))), "{found:?}");
    assert_eq!(restored.get(&id("kept")).await.unwrap().branch, "agent/kept");
    assert_eq!(value(&restored, "kept").await.unwrap().as_deref(), Some(VALUE));
    // The restored database can be written.
    let object = plain(Kind::ConfigMap, "after-the-restore", json!({}));
    restored.commit(vec![Write::Create(object)], Moment::default()).await.unwrap();

    // Without its key, the secrets are lost, and nothing else.
    std::fs::remove_file(database.key_file()).unwrap();
    let keyless = database.open().await;
    let error = value(&keyless, "kept").await.unwrap_err();
    assert!(matches!(error, FleetError::Undecryptable { .. }), "{error:?}");
    assert!(names(&keyless).await.contains("after-the-restore"));
}
