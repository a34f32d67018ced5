//! Concurrent writers on a new file: none fails, nothing is lost, and an id is unique.

use std::collections::BTreeSet;
use std::sync::Barrier;

use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::RunStatus;
use bailiwick_store::Store;

use crate::test_database::{TestDatabase, block_on, id, location, run};

/// Runs `work` in `count` threads that start at the same time.
fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    let start = |number: usize| {
        barrier.wait();
        work(number)
    };
    std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || start(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn forty_concurrent_openers_of_a_new_file_lose_no_write() {
    let database = TestDatabase::new();
    let results = at_once(40, |thread| {
        block_on(async {
            let store = Store::open(location(&database.address())).await?;
            for number in 0..20 {
                store.record(&run(&format!("t{thread}-{number}")), None).await?;
            }
            Ok::<_, StoreError>(())
        })
    });
    for result in results {
        result.unwrap();
    }
    block_on(async {
        let listed = database.open().await.list(None).await.unwrap();
        let found: BTreeSet<String> = listed.iter().map(|run| run.id.to_string()).collect();
        let expected: BTreeSet<String> = (0..40)
            .flat_map(|thread| (0..20).map(move |number| format!("t{thread}-{number}")))
            .collect();
        assert_eq!((found, listed.len()), (expected, 800));
        database.check_sound().await;
    });
}

#[test]
fn exactly_one_of_sixteen_concurrent_writers_gets_an_id() {
    let database = TestDatabase::new();
    for round in 0..5 {
        let wanted = format!("wanted-{round}");
        let results = at_once(16, |thread| {
            block_on(async {
                let store = database.open().await;
                let mut run = run(&wanted);
                run.branch = format!("by-{thread}");
                store.record(&run, Some(&format!("# task of {thread}"))).await
            })
        });
        let winners: Vec<usize> = results
            .iter()
            .enumerate()
            .filter_map(|(thread, result)| match result {
                Ok(()) => Some(thread),
                Err(StoreError::IdTaken { id }) if id.as_str() == wanted => None,
                Err(error) => panic!("{error}"),
            })
            .collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        block_on(async {
            let store = database.open().await;
            let row = store.get(&id(&wanted)).await.unwrap();
            assert_eq!(row.branch, format!("by-{}", winners[0]));
            let events = store.events(&wanted).await.unwrap();
            assert_eq!(events.len(), 1, "a loser left an event: {events:?}");
        });
    }
}

/// A status change reads and then writes; no other write may come between.
#[test]
fn concurrent_status_changes_all_succeed() {
    let database = TestDatabase::new();
    let results = at_once(12, |thread| {
        block_on(async {
            let store = Store::open(location(&database.address())).await?;
            for number in 0..10 {
                let name = id(&format!("t{thread}-{number}"));
                store.record(&run(name.as_str()), None).await?;
                store.change_status(&name, RunStatus::Done, Some("fine")).await?;
                store.change_status(&name, RunStatus::Merged, None).await?;
            }
            Ok::<_, StoreError>(())
        })
    });
    for result in results {
        result.unwrap();
    }
    block_on(async {
        let merged = database.open().await.list(Some(RunStatus::Merged)).await.unwrap();
        assert_eq!(merged.len(), 120);
        assert!(merged.iter().all(|run| run.summary.as_deref() == Some("fine")));
    });
}

#[test]
fn concurrent_costs_are_all_counted() {
    let database = TestDatabase::new();
    block_on(async { database.open().await.record(&run("spender"), None).await.unwrap() });
    at_once(12, |_| {
        block_on(async {
            let store = database.open().await;
            let cost = bailiwick_store::Cost {
                cents: 3,
                provider: "p".to_owned(),
                model: "m".to_owned(),
                replace: false,
            };
            for _ in 0..5 {
                store.record_cost(&id("spender"), &cost).await.unwrap();
            }
        });
    });
    block_on(async {
        let store = database.open().await;
        assert_eq!(store.get(&id("spender")).await.unwrap().cost_cents, 12 * 5 * 3);
        let numbers: Vec<i64> =
            store.events("spender").await.unwrap().iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=61).collect::<Vec<i64>>());
    });
}
