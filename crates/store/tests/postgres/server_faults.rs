//! The server crashes, ends connections, or is missing: no acknowledged write is lost, and no restart is needed.

use std::time::Duration;

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use bailiwick_testkit::postgres::PostgresServer;
use serde_json::json;

use crate::fleet::secrets::{VALUE, set};
use crate::fleet::worker::plain;
use crate::test_database::{TestDatabase, location};

async fn create(store: &Store, name: &str) -> bool {
    let object = plain(Kind::ConfigMap, name, json!({}));
    store.commit(vec![Write::Create(object)], Moment::default()).await.is_ok()
}

async fn names(store: &Store) -> Vec<String> {
    let page = FleetStore::list(store, &Selection::of(Kind::ConfigMap)).await.unwrap();
    page.objects.into_iter().map(|object| object.metadata.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_writes_again_after_the_server_has_crashed() {
    let server = PostgresServer::start();
    let database = TestDatabase::on(&server);
    let store = database.open().await;
    assert!(create(&store, "before").await);
    server.crash_and_restart();
    let mut acknowledged = vec!["before".to_owned()];
    // The earlier connections are closed, and are replaced.
    for number in 0..20 {
        let name = format!("after-{number}");
        if create(&store, &name).await {
            acknowledged.push(name);
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(acknowledged.len(), 2, "the store did not write again");
    let found = names(&store).await;
    assert!(acknowledged.iter().all(|name| found.contains(name)), "{acknowledged:?} {found:?}");
    store.check_writable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_connection_loses_at_most_one_unacknowledged_write() {
    let server = PostgresServer::shared();
    let database = TestDatabase::on(server);
    let store = database.open().await;
    let mut acknowledged = Vec::new();
    for number in 0..40 {
        if number % 10 == 5 {
            let terminate_others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = \
                          current_database() AND pid <> pg_backend_pid()";
            server.sql(database.name(), terminate_others);
        }
        let name = format!("object-{number}");
        if create(&store, &name).await {
            acknowledged.push(name);
        }
    }
    assert!(acknowledged.len() >= 36, "{acknowledged:?}");
    let mut found = names(&store).await;
    found.sort();
    acknowledged.sort();
    assert_eq!(found, acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_writer_does_not_block_the_others_forever() {
    use sqlx::Executor as _;
    let database = TestDatabase::new();
    let store = database.open().await;
    // The state of a process that was stopped in the middle of a write.
    let mut paused = database.connect().await;
    paused
        .execute(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s'; \
             SELECT pg_advisory_xact_lock(7090124316558219001)",
        )
        .await
        .unwrap();
    assert!(create(&store, "one").await, "the server ended the paused transaction");
    assert!(paused.execute("COMMIT").await.is_err(), "positive control: the transaction was ended");
}

#[tokio::test]
async fn missing_server_is_named_without_the_password() {
    let place = tempfile::tempdir().unwrap();
    let address = format!("{}\npostgres://ada:hunter2@127.0.0.1:1/fleet", place.path().display());
    let error = Store::open(location(&address)).await.err().unwrap().to_string();
    assert!(error.contains("postgres://ada@127.0.0.1:1/fleet"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn value_of_a_secret_is_not_in_a_dump() {
    let database = TestDatabase::new();
    let store = database.open().await;
    assert!(create(&store, "anybody-may-read-this").await);
    set(&store, "first", VALUE).await.unwrap();
    let dump = PostgresServer::shared().dump(database.name());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let has = |bytes: &[u8]| {
        dump.contains(&hex(bytes)) || dump.contains(std::str::from_utf8(bytes).unwrap())
    };
    assert!(has(b"anybody-may-read-this"), "positive control");
    assert!(!has(VALUE));
    let key = std::fs::read(database.key_file()).unwrap();
    assert!(!dump.contains(&hex(&key)), "the key must not be in the database");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_openers_of_a_new_database_create_one_schema() {
    let database = TestDatabase::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let address = database.address();
        tasks.spawn(async move { Store::open(location(&address)).await.map(drop) });
    }
    while let Some(opened) = tasks.join_next().await {
        opened.unwrap().unwrap();
    }
    let number = PostgresServer::shared()
        .sql(database.name(), "SELECT count(*) || '/' || max(version) FROM _sqlx_migrations");
    let (count, newest) = number.split_once('/').unwrap();
    assert_eq!(count, newest);
}
