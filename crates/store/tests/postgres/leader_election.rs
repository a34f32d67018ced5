//! Several servers on one database: one of them is the leader, and a former leader can write nothing.

use std::time::Duration;

use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::{Election, LeaderLease, Store};
use bailiwick_testkit::postgres::PostgresServer;
use serde_json::json;
use sqlx::Executor as _;

use crate::fleet::worker::plain;
use crate::test_database::{TestDatabase, run};

async fn create(store: &Store, name: &str) -> bool {
    let object = plain(Kind::ConfigMap, name, json!({}));
    store.commit(vec![Write::Create(object)], Moment::default()).await.is_ok()
}

async fn elected(store: &Store) -> Option<LeaderLease> {
    match store.try_to_lead().await.unwrap() {
        Election::Elected(lease) => Some(lease),
        Election::Follower => None,
        Election::LeaderElsewhere => panic!("all servers are on this machine"),
    }
}

fn change_lease(database: &TestDatabase, change: &str) {
    PostgresServer::shared().sql(database.name(), &format!("UPDATE leader_lease SET {change}"));
}

/// The lease as after a long pause of the leader.
fn expire_lease(database: &TestDatabase) {
    change_lease(database, "renewed_at = 0");
}

#[tokio::test]
async fn released_lease_can_be_acquired_immediately() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let lease = elected(&first).await.unwrap();
    assert!(elected(&second).await.is_none());
    lease.release().await;
    assert!(elected(&second).await.is_some());
    assert!(elected(&first).await.is_none());
}

#[tokio::test]
async fn database_has_a_leader_only_while_its_lease_is_valid() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let has_leader = async || second.has_leader().await.unwrap();
    assert!(!has_leader().await);
    let lease = elected(&first).await.unwrap();
    assert!(has_leader().await);
    // The database was away for longer than the lease: nobody renewed it.
    change_lease(&database, "renewed_at = renewed_at - 60000");
    assert!(!has_leader().await);
    drop(lease);
    let _lease = elected(&second).await.unwrap();
    assert!(has_leader().await);
}

#[tokio::test]
async fn one_of_many_candidates_is_elected() {
    let database = TestDatabase::new();
    database.open().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = database.open().await;
        tasks.spawn(async move { elected(&store).await });
    }
    assert_eq!(tasks.join_all().await.into_iter().flatten().count(), 1);
}

#[tokio::test]
async fn former_leader_cannot_write() {
    let database = TestDatabase::new();
    let (first_store, second_store) = (database.open().await, database.open().await);
    let first = elected(&first_store).await.unwrap();
    let former = first_store.fenced_by(&first);
    assert!(create(&former, "before").await);
    former.record(&run("before"), None).await.unwrap();
    former.check_writable().await.unwrap();
    expire_lease(&database);
    let second = elected(&second_store).await.unwrap();
    assert!(!create(&former, "after").await);
    assert!(former.record(&run("after"), None).await.is_err());
    assert!(former.check_writable().await.is_err());
    assert!(former.forget_changes(1).await.is_err());
    assert!(create(&second_store.fenced_by(&second), "by-the-new-leader").await);
    assert!(create(&first_store, "by-the-api").await, "requests need no lease");
    let lease_end = tokio::time::timeout(Duration::from_secs(60), first.renew_until_lost()).await;
    lease_end.expect("the next renewal must fail");
    let column_values = |column: &str, table: &str| {
        let column_values =
            format!("SELECT string_agg({column}, ' ' ORDER BY {column}) FROM {table}");
        PostgresServer::shared().sql(database.name(), &column_values)
    };
    assert_eq!(column_values("name", "resources"), "before by-the-api by-the-new-leader");
    assert_eq!(column_values("id", "runs"), "before");
}

#[tokio::test]
async fn renewed_lease_is_not_lost() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let lease = elected(&first).await.unwrap();
    let renewed = "SELECT renewed_at FROM leader_lease";
    let before = PostgresServer::shared().sql(database.name(), renewed);
    let lease_end = tokio::time::timeout(Duration::from_secs(5), lease.renew_until_lost()).await;
    assert!(lease_end.is_err(), "the lease was lost");
    assert_ne!(PostgresServer::shared().sql(database.name(), renewed), before);
    assert!(elected(&second).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn election_waits_for_a_write_of_the_last_leader() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let lease = elected(&first).await.unwrap();
    // The lock of a fenced write.
    let mut write = database.connect().await;
    write
        .execute("BEGIN; SELECT epoch FROM leader_lease WHERE id = 1 FOR KEY SHARE")
        .await
        .unwrap();
    let renewing = tokio::time::timeout(Duration::from_secs(4), lease.renew_until_lost());
    let renewed_at = "SELECT renewed_at FROM leader_lease";
    let before = PostgresServer::shared().sql(database.name(), renewed_at);
    assert!(renewing.await.is_err());
    let after = PostgresServer::shared().sql(database.name(), renewed_at);
    assert_ne!(before, after, "a renewal must not wait");
    write.execute("COMMIT").await.unwrap();
    expire_lease(&database);
    write
        .execute("BEGIN; SELECT epoch FROM leader_lease WHERE id = 1 FOR KEY SHARE")
        .await
        .unwrap();
    let election = tokio::spawn(async move { elected(&second).await.is_some() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!election.is_finished());
    write.execute("COMMIT").await.unwrap();
    assert!(election.await.unwrap());
}

#[tokio::test]
async fn leader_whose_process_has_ended_is_replaced_immediately() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let _lease = elected(&first).await.unwrap();
    assert!(elected(&second).await.is_none(), "positive control: the lease is held");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    change_lease(&database, &format!("process = {}", child.id()));
    assert!(elected(&second).await.is_some());
}

#[tokio::test]
async fn leader_on_another_machine_is_replaced_when_its_lease_expires() {
    let database = TestDatabase::new();
    let (first, second) = (database.open().await, database.open().await);
    let _lease = elected(&first).await.unwrap();
    change_lease(&database, "host = 'elsewhere', process = 4194305");
    let election = second.try_to_lead().await.unwrap();
    assert!(matches!(election, Election::LeaderElsewhere), "{election:?}");
    expire_lease(&database);
    assert!(elected(&second).await.is_some());
}
