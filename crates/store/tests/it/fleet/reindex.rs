//! A program that indexes other fields than the previous version rebuilds the index.

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;

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
