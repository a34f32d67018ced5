//! A database is copied completely into another one of either kind, however often the copy is interrupted.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore as _;
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_resources::Moment;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::postgres::PostgresServer;
use bailiwick_testkit::random::Random;
use sqlx::Connection as _;

use crate::fleet::secrets::{VALUE, set, value};
use crate::fleet::sequences::{ResultCounts, sequence};
use crate::test_database::{TestDatabase, location, run};

/// A database with every kind of data of a fleet.
async fn fill(place: Location) -> Store {
    let open = async || Store::open(place.clone()).await.unwrap();
    let mut random = Random::rotating("copies");
    sequence(&mut random, 150, &mut ResultCounts::new(), open).await;
    let store = Store::open(place.clone()).await.unwrap();
    store.record(&run("kept"), Some("task")).await.unwrap();
    set(&store, "copied", VALUE).await.unwrap();
    store
}

/// Copies until this many batches are committed, then stops; returns whether the copy is complete.
async fn copy_some(from: &Store, to: &Store, batches: usize) -> bool {
    let committed = Cell::new(0);
    let mut copy = pin!(from.copy_in_batches(to, 20, |_| committed.set(committed.get() + 1)));
    std::future::poll_fn(|context| {
        if committed.get() >= batches {
            return Poll::Ready(false);
        }
        copy.as_mut().poll(context).map(|copied| !copied.unwrap().is_empty())
    })
    .await
}

/// Copies everything, and restarts after every few batches; returns the number of interruptions.
async fn copy_with_interruptions(from: &Store, place: &Location) -> usize {
    for interruptions in 0..10_000 {
        let to = Store::open_for_copy(place.clone()).await.unwrap();
        if copy_some(from, &to, 1 + interruptions % 4).await {
            return interruptions;
        }
        let refused = Store::open(place.clone()).await.err().unwrap().to_string();
        let suggestion = format!("--to {place}`, or use another database");
        assert!(refused.contains("it is an unfinished copy of"), "{refused}");
        assert!(refused.contains(&suggestion), "{refused}");
    }
    panic!("the copy was never completed");
}

async fn check_equal(first: &Store, second: &Store) {
    assert_eq!(first.count_rows().await.unwrap(), second.count_rows().await.unwrap());
    assert_eq!(first.audit(0, 1000).await.unwrap(), second.audit(0, 1000).await.unwrap());
    assert_eq!(value(second, "copied").await.unwrap().as_deref(), Some(VALUE), "with its key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_that_is_interrupted_repeatedly_is_completed() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| Location::file(place.path().join(name));
    let source = fill(file("one.db")).await;
    let database = TestDatabase::new();
    let interruptions = copy_with_interruptions(&source, &location(&database.address())).await;
    assert!(interruptions > 2, "{interruptions}");
    let two = database.open().await;
    check_equal(&source, &two).await;
    let progress = "SELECT to_regclass('unfinished_copy') IS NULL";
    assert_eq!(PostgresServer::shared().sql(database.name(), progress), "t");
    let interruptions = copy_with_interruptions(&two, &file("three.db")).await;
    assert!(interruptions > 2, "{interruptions}");
    check_equal(&source, &Store::open(file("three.db")).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_does_not_continue_if_copied_rows_have_changed() {
    let (from, to) = (TestDatabase::new(), TestDatabase::new());
    let source = fill(location(&from.address())).await;
    let server = PostgresServer::shared();
    let copied = "SELECT copied_rows > 0 FROM unfinished_copy WHERE table_name = 'audit'";
    let target = Store::open_for_copy(location(&to.address())).await.unwrap();
    loop {
        assert!(
            !copy_some(&source, &target, 1).await,
            "the tables after this one are not copied yet"
        );
        if server.sql(to.name(), copied) == "t" {
            break;
        }
    }
    let change = |detail: &str| {
        let first = "(SELECT MIN(number) FROM audit)";
        let set = format!("UPDATE audit SET detail = {detail} WHERE number = {first}");
        server.sql(from.name(), &set);
    };
    change("'x' || detail");
    let refused = source.copy_to(&target).await.unwrap_err().to_string();
    assert!(refused.contains("rows of `audit` that were copied have changed since"), "{refused}");
    change("substr(detail, 2)");
    // Copied rows were deleted.
    server.sql(from.name(), "CREATE TABLE aside AS SELECT * FROM audit; DELETE FROM audit");
    let refused = source.copy_to(&target).await.unwrap_err().to_string();
    assert!(refused.contains("rows of `audit` that were copied have changed since"), "{refused}");
    server.sql(from.name(), "INSERT INTO audit SELECT * FROM aside; DROP TABLE aside");
    // Positive control: with the original rows, the copy continues. Rows that were not copied yet may be new.
    source.record(&run("later"), Some("task")).await.unwrap();
    source.copy_to(&target).await.unwrap();
    check_equal(&source, &to.open().await).await;
}

#[tokio::test]
async fn copy_that_another_program_has_written_to_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let source = fill(Location::file(place.path().join("one.db"))).await;
    let to = TestDatabase::new();
    let target = Store::open_for_copy(location(&to.address())).await.unwrap();
    assert!(!copy_some(&source, &target, 3).await);
    PostgresServer::shared().sql(to.name(), "INSERT INTO specs (sha, task) VALUES ('x', 'y')");
    let refused = source.copy_to(&target).await.unwrap_err().to_string();
    assert!(refused.contains("`specs` differs from"), "{refused}");
    assert!(Store::open(location(&to.address())).await.is_err());
}

#[tokio::test]
async fn file_is_copied_into_a_server_and_back() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| Location::file(place.path().join(name));
    let source = fill(file("one.db")).await;
    let database = TestDatabase::new();
    let target = database.open().await;
    let copied = source.copy_to(&target).await.unwrap();
    assert!(copied.iter().any(|table| table.name == "resources" && table.rows > 0), "{copied:?}");
    assert_eq!(value(&target, "copied").await.unwrap().as_deref(), Some(VALUE), "with its key");
    let three = Store::open(file("three.db")).await.unwrap();
    assert_eq!(target.copy_to(&three).await.unwrap(), copied);
    assert_eq!(source.count_rows().await.unwrap(), three.count_rows().await.unwrap());
    assert_eq!(source.audit(0, 1000).await.unwrap(), three.audit(0, 1000).await.unwrap());
    let refused = source.copy_to(&three).await.unwrap_err().to_string();
    assert!(refused.contains("it is not empty"), "{refused}");
    // The copy can be written.
    let values = BTreeMap::from([("key".to_owned(), b"x".to_vec())]);
    three.set_secret("default", "new", values, Moment::from_millis(9)).await.unwrap();
}

#[tokio::test]
async fn copy_to_a_database_with_another_key_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| Location::file(place.path().join(name));
    let source = fill(file("one.db")).await;
    let key = place.path().join("two.db.key");
    std::fs::write(&key, "another").unwrap();
    let target = Store::open_for_copy(file("two.db")).await.unwrap();
    let refused = source.copy_to(&target).await.unwrap_err().to_string();
    assert!(refused.contains("is another key"), "{refused}");
    assert!(Store::open(file("two.db")).await.is_ok(), "nothing was begun");
    std::fs::remove_file(&key).unwrap();
    source.copy_to(&target).await.unwrap();
}

/// Reading, writing and comparing a large table takes longer than a write transaction may be idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_continues_although_one_database_waits_long_for_the_other() {
    let (from, to) = (TestDatabase::new(), TestDatabase::new());
    let (source, target) = (from.open().await, to.open().await);
    source.record(&run("kept"), Some("task")).await.unwrap();
    let mut other = from.connect().await;
    let mut locked = other.begin().await.unwrap();
    let lock = sqlx::query("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE");
    lock.execute(&mut *locked).await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        locked.rollback().await.unwrap();
    };
    let (copied, ()) = tokio::join!(source.copy_to(&target), release);
    let copied = copied.unwrap();
    assert!(copied.iter().any(|table| table.name == "runs" && table.rows == 1), "{copied:?}");
}
