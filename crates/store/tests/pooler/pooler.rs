//! Behaviour of transaction poolers: one client's statements run on the connections of others.

use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use bailiwick_testkit::figure;
use bailiwick_testkit::pgbouncer::PgBouncer;
use serde_json::json;

use crate::fleet::worker::plain;
use crate::test_database::TestDatabase;

/// Writes and reads alternately with two servers; returns the first error.
async fn use_alternately(first: &Store, second: &Store) -> Result<(), String> {
    for number in 0..20 {
        for (store, name) in [(first, "one"), (second, "two")] {
            let object = plain(Kind::ConfigMap, &format!("{name}-{number}"), json!({}));
            let written = store.commit(vec![Write::Create(object)], Moment::default()).await;
            let applied = written.map_err(|error| error.to_string())?;
            let changes = store.changes(applied.version - 1, 3).await;
            let changes = changes.map_err(|error| error.to_string())?;
            assert_eq!(changes.len(), 1);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_share_connections_only_if_the_address_allows_it() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    assert_eq!(use_alternately(&first, &second).await, Ok(()));
    let url = database.pooler_url();
    // The statement names of one server are known on the other's connection.
    let unaware = async || {
        let first = Store::open(database.at(&url)).await.map_err(|error| error.to_string())?;
        let second = Store::open(database.at(&url)).await.map_err(|error| error.to_string())?;
        use_alternately(&first, &second).await
    };
    assert!(unaware().await.is_err(), "positive control: this pooler shares connections");
    figure(&format!("transaction pooler: {}", PgBouncer::version()));
}

#[tokio::test]
async fn schema_is_not_changed_through_a_pooler() {
    let database = TestDatabase::without_schema();
    let url = format!("{}?pooler=transaction", database.pooler_url());
    let refused = Store::open(database.at(&url)).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("bailiwick db migrate"), "{refused}");
    database.migrate().await;
    assert!(Store::open(database.at(&url)).await.is_ok());
}
