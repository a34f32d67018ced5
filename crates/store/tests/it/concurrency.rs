//! Many at once: on a fresh file nobody fails, nothing is lost, and an id is taken once.

use std::collections::BTreeSet;
use std::sync::Barrier;

use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::RunStatus;
use bailiwick_store::{Location, Store};
use sqlx::Row as _;

use crate::ledger_in_a_file::{Place, alone, id, run};

/// Runs `work` with its number in `count` threads that all start at the same moment.
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
fn forty_openers_of_a_fresh_file_all_write_what_they_have() {
    let place = Place::new();
    let results = at_once(40, |thread| {
        alone(async {
            let store = Store::open(Location::file(place.database())).await?;
            for number in 0..20 {
                store.record(&run(&format!("t{thread}-{number}")), None).await?;
            }
            Ok::<_, StoreError>(())
        })
    });
    for result in results {
        result.unwrap();
    }
    alone(async {
        let listed = place.open().await.list(None).await.unwrap();
        let found: BTreeSet<String> = listed.iter().map(|run| run.id.to_string()).collect();
        let expected: BTreeSet<String> = (0..40)
            .flat_map(|thread| (0..20).map(move |number| format!("t{thread}-{number}")))
            .collect();
        assert_eq!((found, listed.len()), (expected, 800));
        let mut connection = place.connect().await;
        let sound = sqlx::query("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
        assert_eq!(sound.get::<String, _>(0), "ok");
        let wal = sqlx::query("PRAGMA journal_mode").fetch_one(&mut connection).await.unwrap();
        assert_eq!(wal.get::<String, _>(0), "wal");
    });
}

#[test]
fn of_sixteen_that_want_the_same_id_exactly_one_gets_it() {
    let place = Place::new();
    for round in 0..5 {
        let wanted = format!("wanted-{round}");
        let results = at_once(16, |thread| {
            alone(async {
                let store = place.open().await;
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
        alone(async {
            let store = place.open().await;
            let row = store.get(&id(&wanted)).await.unwrap();
            assert_eq!(row.branch, format!("by-{}", winners[0]));
            let events = store.events(&wanted).await.unwrap();
            assert_eq!(events.len(), 1, "a loser left an event: {events:?}");
        });
    }
}

/// To change a status is to read and then to write: whoever has read must not find it changed.
#[test]
fn statuses_that_are_changed_at_once_all_change() {
    let place = Place::new();
    let results = at_once(12, |thread| {
        alone(async {
            let store = Store::open(Location::file(place.database())).await?;
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
    alone(async {
        let merged = place.open().await.list(Some(RunStatus::Merged)).await.unwrap();
        assert_eq!(merged.len(), 120);
        assert!(merged.iter().all(|run| run.summary.as_deref() == Some("fine")));
    });
}

#[test]
fn costs_that_are_added_at_once_are_all_counted() {
    let place = Place::new();
    alone(async { place.open().await.record(&run("spender"), None).await.unwrap() });
    at_once(12, |_| {
        alone(async {
            let store = place.open().await;
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
    alone(async {
        let store = place.open().await;
        assert_eq!(store.get(&id("spender")).await.unwrap().cost_cents, 12 * 5 * 3);
        let numbers: Vec<i64> =
            store.events("spender").await.unwrap().iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=61).collect::<Vec<i64>>());
    });
}
