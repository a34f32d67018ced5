//! Pages of runs: each run is on exactly one page, the newest first, for any number of runs.

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::RunStatus;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_store::{ClosedRuns, RunPage, RunPosition, Store};

use crate::test_database::{TestDatabase, attempt, id, run};

/// More runs than a person ever scrolls through, several in each millisecond.
const MANY: i64 = 100_000;
const PER_MILLISECOND: i64 = 7;
/// One in so many runs has landed.
const LANDED: i64 = 20;

async fn seeded(database: &TestDatabase) -> Store {
    let store = database.open().await;
    let mut connection = database.connect().await;
    sqlx::query(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1) \
         INSERT INTO runs (id, branch, spec_sha, status, started_at, half_spawned, name) \
         SELECT 'r' || substr(CAST(1000000 + i AS TEXT), 2), 'b', '', CASE i % $3 WHEN 0 THEN 'merged' ELSE 'running' END, \
         1000000 + i / $2, 0, 'r' || substr(CAST(1000000 + i AS TEXT), 2) FROM n",
    )
    .bind(MANY)
    .bind(PER_MILLISECOND)
    .bind(LANDED)
    .execute(&mut connection)
    .await
    .unwrap();
    store
}

fn number(id: &str) -> i64 {
    id.trim_start_matches('r').parse().unwrap()
}

fn started_at(id: &str) -> i64 {
    1_000_000 + number(id) / PER_MILLISECOND
}

/// The IDs of all pages.
async fn all_pages(store: &Store, statuses: &[RunStatus], limit: u32) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut after: Option<(i64, String)> = None;
    loop {
        let position = after.as_ref().map(|(at, id)| RunPosition { started_at: *at, id });
        let page = store
            .run_page(RunPage {
                statuses,
                failed_by: &[],
                is_unsettled: false,
                after: position,
                limit,
            })
            .await
            .unwrap();
        found.extend(page.runs.iter().map(|(_, run)| run.id.to_string()));
        if page.is_end {
            return found;
        }
        after = page.last;
    }
}

#[tokio::test]
async fn pages_of_a_hundred_thousand_runs_have_no_gaps_or_duplicates() {
    let database = TestDatabase::new();
    let store = seeded(&database).await;
    assert_eq!(store.count_runs().await.unwrap(), MANY.unsigned_abs());
    let mut expected: Vec<(i64, String)> =
        (0..MANY).map(|i| (-(i / PER_MILLISECOND), format!("r{i:06}"))).collect();
    expected.sort();
    let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    // Pages that end in the middle of a millisecond, at the start, deep inside and at the end.
    for start in [0_usize, 1, 49_999, 99_960] {
        let before = start.checked_sub(1).map(|last| &expected[last]);
        let position = before.map(|id| RunPosition { started_at: started_at(id), id });
        let page = RunPage {
            statuses: &[],
            failed_by: &[],
            is_unsettled: false,
            after: position,
            limit: 50,
        };
        let page = store.run_page(page).await.unwrap();
        let found: Vec<&str> = page.runs.iter().map(|(_, run)| run.id.as_str()).collect();
        let end = (start + 50).min(expected.len());
        assert_eq!(found, expected[start..end], "{start}");
    }
    let landed = all_pages(&store, &[RunStatus::Merged], 997).await;
    let is_landed = |id: &&String| number(id) % LANDED == 0;
    let expected: Vec<&String> = expected.iter().filter(is_landed).collect();
    assert_eq!(landed.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn closed_runs_are_counted_among_a_hundred_thousand() {
    let database = TestDatabase::new();
    let store = seeded(&database).await;
    let landed = (MANY / LANDED).unsigned_abs();
    let counted = store.count_closed_runs().await.unwrap();
    assert_eq!(counted, ClosedRuns { landed, failed: 0 }, "open runs are not counted");
    let mut connection = database.connect().await;
    for change in [
        "status = 'failed' WHERE id IN ('r000001', 'r000002')",
        "status = 'rejected' WHERE id = 'r000003'",
        "status = 'done' WHERE id = 'r000004'",
        "rolled_back_at = 1 WHERE id = 'r000000'",
    ] {
        let statement = format!("UPDATE runs SET {change}");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }
    let counted = store.count_closed_runs().await.unwrap();
    assert_eq!(counted, ClosedRuns { landed: landed - 1, failed: 4 });
}

#[tokio::test]
async fn runs_that_start_between_two_pages_do_not_change_the_pages() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in ["a", "b", "c"] {
        store.record(&run(name), None).await.unwrap();
    }
    let first = store
        .run_page(RunPage {
            statuses: &[],
            failed_by: &[],
            is_unsettled: false,
            after: None,
            limit: 2,
        })
        .await
        .unwrap();
    let (at, last) = first.runs.last().unwrap();
    store.record(&run("d"), None).await.unwrap();
    let after = Some(RunPosition { started_at: *at, id: last.id.as_str() });
    let second_page = store
        .run_page(RunPage { statuses: &[], failed_by: &[], is_unsettled: false, after, limit: 9 })
        .await
        .unwrap();
    let mut listed: Vec<&str> =
        first.runs.iter().chain(&second_page.runs).map(|(_, run)| run.id.as_str()).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["a", "b", "c"]);
    assert!(store.find(&id("d")).await.unwrap().is_some(), "positive control");
}

#[tokio::test]
async fn failed_runs_are_read_only_with_the_requested_exit_reason() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for (name, ending) in [("a", ExitReason::Failed), ("b", ExitReason::EnforcementLost)] {
        store.record(&run(name), None).await.unwrap();
        let mut last = attempt(name);
        last.number = store.begin_attempt(&last).await.unwrap();
        let last = Attempt { phase: Phase::Over, ending: Some(ending), ended_at: Some(6), ..last };
        store.update_attempt(&last).await.unwrap();
    }
    store.record(&run("c"), None).await.unwrap();
    let mut connection = database.connect().await;
    let failed = "UPDATE runs SET status = 'failed' WHERE id <> 'c'";
    sqlx::query(failed).execute(&mut connection).await.unwrap();
    let statuses = &[RunStatus::Running, RunStatus::Failed];
    for (failed_by, expected) in
        [(&[ExitReason::EnforcementLost][..], &["b", "c"][..]), (&[], &["a", "b", "c"])]
    {
        let page = RunPage { statuses, failed_by, is_unsettled: false, after: None, limit: 9 };
        let page = store.run_page(page).await.unwrap();
        let mut found: Vec<&str> = page.runs.iter().map(|(_, run)| run.id.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn unreadable_run_does_not_end_a_list() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in ["a", "b", "c", "d"] {
        store.record(&run(name), None).await.unwrap();
    }
    let mut connection = database.connect().await;
    for (id, started_at) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        let name = if matches!(id, "b" | "c") { format!("not an ID {id}") } else { id.to_owned() };
        sqlx::query("UPDATE runs SET id = $1, started_at = $2 WHERE id = $3")
            .bind(name)
            .bind(started_at)
            .bind(id)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    for limit in [1, 2, 3, 9] {
        assert_eq!(all_pages(&store, &[], limit).await, ["d", "a"], "{limit}");
    }
}
