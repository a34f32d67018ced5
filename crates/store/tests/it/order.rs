//! Lists of runs: oldest first, also within a second; by status and by branch.

use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
use bailiwick_model::{Run, RunStatus};
use bailiwick_store::Store;

use crate::test_database::{TestDatabase, id, run};

fn milliseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Records the runs in this order, each in a later millisecond than the one before.
async fn record_in_order(store: &Store, runs: &[NewRun]) {
    for run in runs {
        store.record(run, None).await.unwrap();
        let recorded_at = milliseconds();
        while milliseconds() <= recorded_at {
            std::hint::spin_loop();
        }
    }
}

fn names(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.id.as_str()).collect()
}

#[tokio::test]
async fn oldest_run_comes_first_also_within_a_second() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let dna = Some("edit-local::NG::AAAA::BBBB-0001".to_owned());
    let in_order = ["m", "z", "a", "y", "b", "x", "c", "w"];
    let runs = in_order.map(|name| NewRun {
        branch: "shared".to_owned(),
        parent: Some("m".to_owned()),
        creator: Some("me".to_owned()),
        dna: dna.clone(),
        ..run(name)
    });
    record_in_order(&store, &runs).await;
    assert_eq!(names(&store.list(None).await.unwrap()), in_order);
    assert_eq!(names(&store.list(Some(RunStatus::Running)).await.unwrap()), in_order);
    assert_eq!(names(&store.runs_on_branch("shared").await.unwrap()), in_order);
    assert_eq!(names(&store.descendants(&id("m")).await.unwrap()), in_order);
    assert_eq!(names(&store.find_by_dna_prefix("edit").await.unwrap()), in_order);
    assert_eq!(names(&store.forked_or_created_by("me").await.unwrap()), in_order);
}

#[tokio::test]
async fn list_contains_the_runs_of_a_status_only() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for status in RunStatus::ALL {
        for number in 0..2 {
            let name = id(&format!("{status}-{number}"));
            store.record(&run(name.as_str()), None).await.unwrap();
            if status == RunStatus::Merged {
                store.change_status(&name, RunStatus::Done, None).await.unwrap();
            }
            if status != RunStatus::Running {
                store.change_status(&name, status, None).await.unwrap();
            }
        }
    }
    for status in RunStatus::ALL {
        let found = store.list(Some(status)).await.unwrap();
        assert_eq!(names(&found), [format!("{status}-0"), format!("{status}-1")]);
    }
    assert_eq!(store.list(None).await.unwrap().len(), 10);
}

#[tokio::test]
async fn recorded_run_is_read_back_unchanged() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let special = "ein Pfad/mit 'Anführung' \"und\" \\ $1 %_ \u{1f600}\n";
    let full = NewRun {
        id: id("A.b_c-1"),
        branch: special.to_owned(),
        parent: Some(special.to_owned()),
        spec_sha: "any text may be a sha".to_owned(),
        worktree: Some(special.to_owned()),
        dna: Some(special.to_owned()),
        creator: Some(special.to_owned()),
        fork_parent: Some(special.to_owned()),
        half_spawned: true,
        base: Some(special.to_owned()),
        named: None,
    };
    store.record(&full, None).await.unwrap();
    let row = store.get(&full.id).await.unwrap();
    assert_eq!(row.branch, special);
    assert_eq!(row.spec_sha, full.spec_sha);
    for text in [
        row.parent_branch,
        row.worktree_path,
        row.dna,
        row.creator_id,
        row.fork_parent_id,
        row.base,
    ] {
        assert_eq!(text.as_deref(), Some(special));
    }
    assert_eq!((row.status, row.finished_ts, row.summary), (RunStatus::Running, None, None));
    assert_eq!((row.cost_cents, row.provider.as_str(), row.model.as_str()), (0, "", ""));
    assert!(row.half_spawned);
    store.finish_spawn(&full.id).await.unwrap();
    assert!(!store.get(&full.id).await.unwrap().half_spawned);
    assert_eq!(store.find(&id("other")).await.unwrap(), None);
}
