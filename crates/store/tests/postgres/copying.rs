//! A database is copied into another one of either kind, whole.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore as _;
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_resources::Moment;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::random::Random;
use sqlx::Connection as _;

use crate::fleet::secrets::{VALUE, set, value};
use crate::fleet::sequences::{Seen, sequence};
use crate::test_database::{TestDatabase, run};

#[tokio::test]
async fn a_file_is_copied_into_a_server_and_back() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| Location::file(place.path().join(name));
    let mut random = Random::rotating("copies");
    // All that a fleet can have in it.
    let open = async || Store::open(file("one.db")).await.unwrap();
    sequence(&mut random, 150, &mut Seen::new(), open).await;
    let one = Store::open(file("one.db")).await.unwrap();
    one.record(&run("kept"), Some("task")).await.unwrap();
    set(&one, "copied", VALUE).await.unwrap();
    let database = TestDatabase::new();
    let two = database.open().await;
    let copied = one.copy_to(&two).await.unwrap();
    assert!(copied.iter().any(|table| table.name == "resources" && table.rows > 0), "{copied:?}");
    assert_eq!(value(&two, "copied").await.unwrap().as_deref(), Some(VALUE), "with its key");
    let three = Store::open(file("three.db")).await.unwrap();
    assert_eq!(two.copy_to(&three).await.unwrap(), copied);
    assert_eq!(one.count_rows().await.unwrap(), three.count_rows().await.unwrap());
    assert_eq!(one.audit(0, 1000).await.unwrap(), three.audit(0, 1000).await.unwrap());
    let refused = one.copy_to(&three).await.unwrap_err().to_string();
    assert!(refused.contains("it is not empty"), "{refused}");
    // The copy is written to like any other.
    let values = BTreeMap::from([("key".to_owned(), b"x".to_vec())]);
    three.set_secret("default", "new", values, Moment::from_millis(9)).await.unwrap();
}

/// Reading, writing and comparing a large table takes longer than a write transaction may be idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_goes_on_although_one_database_waits_long_for_the_other() {
    let (from, to) = (TestDatabase::new(), TestDatabase::new());
    let (one, two) = (from.open().await, to.open().await);
    one.record(&run("kept"), Some("task")).await.unwrap();
    let mut other = from.connect().await;
    let mut locked = other.begin().await.unwrap();
    let lock = sqlx::query("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE");
    lock.execute(&mut *locked).await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        locked.rollback().await.unwrap();
    };
    let (copied, ()) = tokio::join!(one.copy_to(&two), release);
    let copied = copied.unwrap();
    assert!(copied.iter().any(|table| table.name == "runs" && table.rows == 1), "{copied:?}");
}
