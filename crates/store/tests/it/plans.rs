//! Query plans of SQLite.

use bailiwick_lifecycle::ports::RunStore as _;
use sqlx::Row as _;

use crate::test_database::{TestDatabase, run};

#[tokio::test]
async fn dna_prefix_is_looked_up_in_the_index() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.record(&run("one"), None).await.unwrap();
    let mut connection = database.connect().await;
    let mut plan = async |condition: &str| {
        let query = format!("EXPLAIN QUERY PLAN SELECT id FROM agents WHERE {condition}");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind("edit")
            .bind("edit\u{10ffff}")
            .bind(4_i64)
            .bind("edit")
            .fetch_all(&mut connection)
            .await
            .unwrap();
        rows.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("\n")
    };
    // The condition of `Store::find_by_dna_prefix`.
    let used =
        plan("substr(dna, 1, 30) >= $1 AND substr(dna, 1, 30) < $2 AND substr(dna, 1, CAST($3 AS INTEGER)) = $4")
            .await;
    assert!(used.contains("SEARCH runs USING INDEX idx_agents_dna_prefix"), "{used}");
    // Positive control: the plan of a query without the index differs.
    let unused = plan("dna >= $1 AND dna < $2 AND $3 > 0 AND dna LIKE $4 || '%'").await;
    assert!(unused.contains("SCAN runs") && !unused.contains("idx_agents_dna"), "{unused}");
}
