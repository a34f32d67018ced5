//! The events of an attempt are deleted in batches, and the attempt last.

use sqlx::Executor as _;

use bailiwick_fleet::workers::QueuedState;

use crate::test_database::{TestDatabase, block_on};
use crate::worker_queue::{claimed, finish, numbers};

const EVENTS: u64 = 2_500;

#[test]
fn attempt_with_many_events_is_forgotten_in_batches() {
    let database = TestDatabase::new();
    block_on(async {
        let store = database.open().await;
        let lease = claimed(&store, "agent").await;
        let mut connection = database.connect().await;
        let add = format!(
            "WITH RECURSIVE n (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {EVENTS}) \
             INSERT INTO worker_events (agent, number, event) \
             SELECT 'agent', number, '{{\"number\":1,\"at\":1,\"kind\":\"text\",\"body\":null}}' FROM n"
        );
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(add))).await.unwrap();
        let count = async || {
            let left = sqlx::query("SELECT COUNT(*) FROM worker_events");
            let row = left.fetch_one(&mut database.connect().await).await.unwrap();
            sqlx::Row::get::<i64, _>(&row, 0).unsigned_abs()
        };
        store.forget_attempt("agent").await.unwrap();
        assert_eq!(count().await, EVENTS, "positive control: its worker still runs it");
        store.finish_attempt("one", &lease, &finish()).await.unwrap().unwrap();
        store.settle_attempt("agent", QueuedState::Checked, "").await.unwrap();
        // It is interrupted in the second batch.
        let fail = "CREATE TRIGGER interrupted BEFORE DELETE ON worker_events WHEN old.number > 1500 \
                    BEGIN SELECT RAISE(ABORT, 'interrupted'); END";
        connection.execute(fail).await.unwrap();
        store.forget_attempt("agent").await.unwrap_err();
        assert_eq!(count().await, EVENTS - 1_000);
        assert!(store.queued_attempt("agent").await.unwrap().is_some());
        connection.execute("DROP TRIGGER interrupted").await.unwrap();
        store.forget_attempt("agent").await.unwrap();
        assert!(numbers(&store, "agent").await.is_empty());
        assert!(store.queued_attempt("agent").await.unwrap().is_none());
    });
}
