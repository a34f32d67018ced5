//! Migrations while other programs use the database.

use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_store::Store;
use sqlx::{Connection as _, Executor as _};

use crate::test_database::{TestDatabase, id, location, run};

/// Reverts schema version 14, and those after it.
const REVERT_TO_VERSION_13: [&str; 7] = [
    "ALTER TABLE worker_attempts DROP COLUMN pod_grants",
    "DROP INDEX worker_attempts_to_claim",
    "CREATE INDEX worker_attempts_in_queue ON worker_attempts (pool, state, queued_at, agent)",
    "DROP TABLE schema_compatibility",
    "ALTER TABLE resource_index DROP COLUMN version",
    "ALTER TABLE resource_index DROP COLUMN has_older_terms",
    "DELETE FROM _sqlx_migrations WHERE version > 13",
];

/// A migration waits for a table for 5 seconds at a time. The rest is for a slow machine.
const MAX_WAIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_that_waits_for_a_table_lets_others_use_it() {
    let database = TestDatabase::new();
    database.open().await.record(&run("kept"), None).await.unwrap();
    let mut long_reader = database.connect().await;
    for statement in REVERT_TO_VERSION_13 {
        long_reader.execute(statement).await.unwrap();
    }
    // A dump, for example, holds this lock on every table until it ends.
    long_reader.execute("BEGIN; LOCK TABLE resource_index IN ACCESS SHARE MODE").await.unwrap();
    let address = database.address();
    let migration = tokio::spawn(async move { Store::open(location(&address)).await });
    let mut other = database.connect().await;
    let waits = "SELECT 1 FROM pg_locks WHERE relation = 'resource_index'::regclass \
                 AND mode = 'AccessExclusiveLock' AND NOT granted";
    let begun = Instant::now();
    while other.fetch_optional(waits).await.unwrap().is_none() {
        assert!(begun.elapsed() < MAX_WAIT, "the migration does not wait");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Behind a migration that waits for as long as it takes, it would wait for the end of the dump.
    let read = other.execute("SELECT fields FROM resource_index");
    tokio::time::timeout(MAX_WAIT, read).await.expect("a reader waits").unwrap();
    assert!(!migration.is_finished(), "the table is still in use");
    long_reader.execute("COMMIT").await.unwrap();
    long_reader.close().await.unwrap();
    let migrated = migration.await.unwrap().unwrap();
    assert!(migrated.schema().await.unwrap() > 13);
    assert_eq!(migrated.get(&id("kept")).await.unwrap().id, id("kept"));
}
