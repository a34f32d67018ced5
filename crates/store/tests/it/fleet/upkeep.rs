//! A program that indexes other fields than the one before it finds every object by them.

use bailiwick_fleet::ports::{FleetStore, Selection, Write};
use bailiwick_resources::{Kind, Moment};
use bailiwick_store::Store;
use serde_json::json;

use super::worker::plain;
use crate::ledger_in_a_file::Place;

async fn found(store: &Store) -> usize {
    let selection = Selection::of(Kind::AgentDispatchRun).field("stack", "x");
    FleetStore::list(store, &selection).await.unwrap().objects.len()
}

#[tokio::test]
async fn objects_are_found_by_fields_that_were_not_indexed_when_they_were_written() {
    // More than are read at a time.
    const COUNT: usize = 1_203;
    let place = Place::new();
    let store = place.open().await;
    let spec = json!({ "agentStack": "x" });
    let run = |number| plain(Kind::AgentDispatchRun, &format!("run-{number}"), spec.clone());
    let other = plain(Kind::AgentStack, "stack", json!({}));
    let runs = (0..COUNT).map(|number| Write::Create(run(number)));
    let writes = runs.chain([Write::Create(other)]).collect();
    store.commit(writes, Moment::default()).await.unwrap();
    // As a program leaves it that knows of no such field.
    let mut connection = place.connect().await;
    let gone = "DELETE FROM resource_terms WHERE term = 'AgentDispatchRun.stack'";
    sqlx::query(gone).execute(&mut connection).await.unwrap();
    assert_eq!(found(&place.open().await).await, 0, "they are found without the index");
    let fields = "UPDATE resource_index SET fields = 'AgentDispatchRun.status=/status/phase'";
    sqlx::query(fields).execute(&mut connection).await.unwrap();
    let again = place.open().await;
    assert_eq!(found(&again).await, 1_000);
    let rest = Selection::of(Kind::AgentDispatchRun).field("stack", "x");
    let all = Selection { limit: usize::MAX, ..rest };
    assert_eq!(FleetStore::list(&again, &all).await.unwrap().objects.len(), COUNT);
}
