//! Status changes agree with a plain model of the legal transitions.

use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::{Run, RunStatus};
use bailiwick_store::{Event, Store};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;
use sqlx::{AnyConnection, Row as _};

use crate::test_database::{TestDatabase, id, run};

/// The legal transitions, written a second time on purpose.
const LEGAL: [(&str, &str); 6] = [
    ("running", "done"),
    ("running", "failed"),
    ("running", "rejected"),
    ("done", "merged"),
    ("done", "rejected"),
    ("failed", "rejected"),
];

/// The expected state of a run.
#[derive(Debug, Clone)]
struct Expected {
    status: &'static str,
    summary: Option<String>,
    ended: bool,
    events: Vec<(String, String)>,
}

/// Everything that is stored about a run.
#[derive(Debug, PartialEq)]
struct Stored {
    row: Run,
    ended_at: Option<i64>,
    events: Vec<Event>,
}

async fn stored(store: &Store, connection: &mut AnyConnection, name: &str) -> Stored {
    let finished_at = sqlx::query("SELECT finished_at FROM runs WHERE id = $1").bind(name);
    Stored {
        row: store.get(&id(name)).await.unwrap(),
        ended_at: finished_at.fetch_one(connection).await.unwrap().get(0),
        events: store.events(name).await.unwrap(),
    }
}

fn summary(random: &mut Random) -> Option<String> {
    let texts = ["", "all green", "größer\nund länger", "'); DROP TABLE runs; --"];
    texts.get(random.below(texts.len() + 1)).map(|text| (*text).to_owned())
}

#[tokio::test]
async fn random_status_changes_follow_legal_transitions_only() {
    let mut random = Random::rotating("status walks");
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut connection = database.connect().await;
    let mut model: Vec<(String, Expected)> = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for step in 0..Depth::from_env().cases(2_000) {
        if random.once_in(3) || model.is_empty() {
            let name = format!("walk-{step}");
            store.record(&run(&name), None).await.unwrap();
            let events = vec![("forked".to_owned(), format!("agent/{name}"))];
            let expected = Expected { status: "running", summary: None, ended: false, events };
            model.push((name, expected));
        }
        // Mostly recent runs: the old ones are in a final status.
        let young = model.len().saturating_sub(10);
        let pick = random.below(model.len() - young);
        let (name, expected) = &mut model[young..][pick];
        let next = RunStatus::ALL[random.below(RunStatus::ALL.len())];
        let summary = summary(&mut random);
        let before = stored(&store, &mut connection, name).await;
        let changed = store.change_status(&id(name), next, summary.as_deref()).await;
        let after = stored(&store, &mut connection, name).await;
        if LEGAL.contains(&(expected.status, next.as_str())) {
            changed.unwrap_or_else(|error| panic!("{} → {next}: {error}", expected.status));
            accepted += 1;
            expected.status = next.as_str();
            expected.ended = true;
            expected.events.push((next.to_string(), summary.clone().unwrap_or_default()));
            expected.summary = summary.or(expected.summary.take());
            let first_ended_at = before.ended_at.or(after.ended_at);
            assert_eq!(after.ended_at, first_ended_at, "the end of a run is recorded once");
        } else {
            refused += 1;
            match changed {
                Err(StoreError::Illegal { id, why }) => {
                    assert_eq!(id.as_str(), name.as_str());
                    assert_eq!((why.from.as_str(), why.to), (expected.status, next));
                }
                other => panic!("{} → {next}: {other:?}", expected.status),
            }
            assert_eq!(after, before, "a refused change was stored");
        }
        let Stored { row, events, ended_at } = after;
        assert_eq!(row.status.as_str(), expected.status);
        assert_eq!(row.summary, expected.summary);
        assert_eq!(ended_at.is_some(), expected.ended);
        assert_eq!(row.finished_ts, ended_at.map(|milliseconds| milliseconds / 1000));
        let found: Vec<_> = events.into_iter().map(|event| (event.kind, event.detail)).collect();
        assert_eq!(found, expected.events);
    }
    assert!(
        accepted > 20 && refused > 20,
        "the walk was one-sided: {accepted} accepted, {refused} refused"
    );
}

#[tokio::test]
async fn every_pair_of_statuses_is_accepted_or_refused_as_listed() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let paths: [&[RunStatus]; 5] = [
        &[],
        &[RunStatus::Done],
        &[RunStatus::Failed],
        &[RunStatus::Done, RunStatus::Merged],
        &[RunStatus::Rejected],
    ];
    for (from, path) in RunStatus::ALL.into_iter().zip(paths) {
        for to in RunStatus::ALL {
            let name = format!("{from}-{to}");
            store.record(&run(&name), None).await.unwrap();
            for step in path {
                store.change_status(&id(&name), *step, None).await.unwrap();
            }
            assert_eq!(store.get(&id(&name)).await.unwrap().status, from);
            let legal = LEGAL.contains(&(from.as_str(), to.as_str()));
            let changed = store.change_status(&id(&name), to, None).await;
            assert_eq!(changed.is_ok(), legal, "{from} → {to}");
            let current = store.get(&id(&name)).await.unwrap().status;
            assert_eq!(current, if legal { to } else { from });
        }
    }
}

#[tokio::test]
async fn only_one_of_two_concurrent_changes_ends_a_run() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for round in 0..20 {
        let name = format!("race-{round}");
        let name = id(&name);
        store.record(&run(name.as_str()), None).await.unwrap();
        let (done, failed) = tokio::join!(
            store.change_status(&name, RunStatus::Done, Some("done")),
            store.change_status(&name, RunStatus::Failed, Some("failed")),
        );
        let won = match (&done, &failed) {
            (Ok(()), Err(StoreError::Illegal { .. })) => "done",
            (Err(StoreError::Illegal { .. }), Ok(())) => "failed",
            both => panic!("{both:?}"),
        };
        let row = store.get(&name).await.unwrap();
        assert_eq!((row.status.as_str(), row.summary.as_deref()), (won, Some(won)));
        assert_eq!(store.events(name.as_str()).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn changing_the_status_of_an_unknown_run_fails() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.record(&run("builder-1"), None).await.unwrap();
    let unknown = store.change_status(&id("builder-2"), RunStatus::Done, None).await;
    match unknown {
        Err(StoreError::NoSuchRun { id, near }) => {
            assert_eq!((id.as_str(), near.as_deref()), ("builder-2", Some("builder-1")));
        }
        other => panic!("{other:?}"),
    }
    assert!(store.events("builder-2").await.unwrap().is_empty());
    assert_eq!(store.events("builder-1").await.unwrap().len(), 1);
}
