//! A program that indexes other fields than the previous version rebuilds the index.

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;
use sqlx::{AnyConnection, Row as _};

use super::worker::plain;
use crate::test_database::TestDatabase;

async fn found(store: &Store) -> usize {
    let selection = Selection::of(Kind::AgentDispatchRun).field("stack", "x");
    FleetStore::list(store, &selection).await.unwrap().objects.len()
}

#[tokio::test]
async fn objects_are_found_by_newly_indexed_fields() {
    // More than one batch.
    const COUNT: usize = 1_203;
    let database = TestDatabase::new();
    let store = database.open().await;
    let spec = json!({ "agentStack": "x" });
    let run = |number| plain(Kind::AgentDispatchRun, &format!("run-{number}"), spec.clone());
    let other = plain(Kind::AgentStack, "stack", json!({}));
    let runs = (0..COUNT).map(|number| Write::Create(run(number)));
    let writes = runs.chain([Write::Create(other)]).collect();
    store.commit(writes, Moment::default()).await.unwrap();
    // The state that a program without that indexed field leaves.
    let mut connection = database.connect().await;
    let delete = "DELETE FROM resource_terms WHERE term = 'AgentDispatchRun.stack'";
    sqlx::query(delete).execute(&mut connection).await.unwrap();
    assert_eq!(found(&database.open().await).await, 0, "the runs are found without the index");
    let fields = "UPDATE resource_index SET fields = 'AgentDispatchRun.status=/status/phase'";
    sqlx::query(fields).execute(&mut connection).await.unwrap();
    let reopened = database.open().await;
    assert_eq!(found(&reopened).await, 1_000);
    let by_stack = Selection::of(Kind::AgentDispatchRun).field("stack", "x");
    let all_runs = Selection { limit: usize::MAX, ..by_stack };
    assert_eq!(FleetStore::list(&reopened, &all_runs).await.unwrap().objects.len(), COUNT);
}

#[tokio::test]
async fn index_of_a_newer_program_is_kept_and_completed_after_older_writes() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut connection = database.connect().await;
    let own = sqlx::query("SELECT fields, version FROM resource_index");
    let own = own.fetch_one(&mut connection).await.unwrap();
    let (own_fields, own_version): (String, i64) = (own.get(0), own.get(1));
    let newer = "UPDATE resource_index SET fields = 'newer', version = version + 1";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    let state = async |connection: &mut AnyConnection| {
        let read = "SELECT fields, has_older_terms FROM resource_index";
        let row = sqlx::query(read).fetch_one(connection).await.unwrap();
        (row.get::<String, _>(0), row.get::<i64, _>(1))
    };

    let older = database.open().await;
    older.complete_index().await.unwrap();
    older.check_writable().await.unwrap();
    assert_eq!(state(&mut connection).await, ("newer".to_owned(), 0));
    // A program that was running before the newer one was started writes, too.
    let run = plain(Kind::AgentDispatchRun, "run", json!({ "agentStack": "x" }));
    store.commit(vec![Write::Create(run)], Moment::default()).await.unwrap();
    assert_eq!(state(&mut connection).await, ("newer".to_owned(), 1));

    // The newer program starts: its term of the new object is missing.
    let delete = "DELETE FROM resource_terms WHERE term = 'AgentDispatchRun.stack'";
    sqlx::query(delete).execute(&mut connection).await.unwrap();
    let newer = "UPDATE resource_index SET fields = $1, version = $2";
    let newer = sqlx::query(newer).bind(own_fields.clone()).bind(own_version);
    newer.execute(&mut connection).await.unwrap();
    let newer = database.open().await;
    assert_eq!(found(&newer).await, 0, "opening does not rebuild the index each time");
    newer.complete_index().await.unwrap();
    assert_eq!(found(&newer).await, 1);
    assert_eq!(state(&mut connection).await, (own_fields, 0));
}
