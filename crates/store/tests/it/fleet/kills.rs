//! Writers killed with SIGKILL: acknowledged writes exist, and transactions are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiwick_fleet::ports::{ChangeKind, FleetStore, Received, Selection, Write};
use bailiwick_resources::{AnyObject, Kind, Moment};
use bailiwick_store::Store;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};
use serde_json::json;

use super::objects::delivery;
use super::worker::{COUNTER, Worker, plain};
use crate::test_database::{TestDatabase, block_on};

/// The writes that were acknowledged to workers.
#[derive(Default)]
struct Acknowledged {
    received: BTreeSet<String>,
    paired: BTreeMap<String, u64>,
}

/// Kills a worker after some time; records each of its answers.
fn killed_worker(database: &TestDatabase, name: &str, random: &mut Random, all: &mut Acknowledged) {
    let mut worker = Worker::start(&database.address());
    worker.order(&format!("work {name}"));
    let answers = random.below(60);
    let mut read = |answer: &str| match answer.split(' ').collect::<Vec<_>>().as_slice() {
        ["received", what] => {
            all.received.insert((*what).to_owned());
        }
        ["paired", what, version] => {
            all.paired.insert((*what).to_owned(), version.parse().unwrap());
        }
        other => panic!("{other:?}"),
    };
    for _ in 0..answers {
        read(&worker.answer().unwrap());
    }
    std::thread::sleep(Duration::from_micros(random.number() % 3_000));
    worker.process.kill().unwrap();
    worker.process.wait().unwrap();
    while let Some(answer) = worker.answer() {
        read(&answer);
    }
}

async fn all_of(store: &Store, kind: Kind) -> Vec<AnyObject> {
    let selection = Selection { limit: usize::MAX, ..Selection::of(kind) };
    FleetStore::list(store, &selection).await.unwrap().objects
}

/// Checks all invariants after a kill.
async fn check(store: &Store, all: &Acknowledged) -> usize {
    let deliveries = all_of(store, Kind::WebhookDelivery).await;
    let names: BTreeSet<&str> =
        deliveries.iter().map(|object| object.metadata.name.as_str()).collect();
    for name in &all.received {
        assert!(names.contains(name.as_str()), "{name} was acknowledged and is missing");
    }
    for object in &deliveries {
        let digest = object.spec["payloadDigest"].as_str().unwrap();
        let bytes = store.blob(digest).await.unwrap();
        assert_eq!(bytes.as_deref(), Some(object.metadata.name.as_bytes()));
    }
    let audit = store.audit(0, usize::MAX).await.unwrap();
    let audited: Vec<&str> = audit.iter().map(|(_, entry)| entry.subject.as_str()).collect();
    let mut sides: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let runs = all_of(store, Kind::AgentDispatchRun).await;
    for run in &runs {
        let (what, side) = run.metadata.name.rsplit_once('-').unwrap();
        sides.entry(what).or_default().push(side);
    }
    for (what, sides) in &sides {
        assert_eq!(*sides, ["left", "right"], "{what} is incomplete");
        assert!(store.blob(what).await.unwrap().is_some(), "{what} has no bytes");
    }
    assert_eq!(audited.iter().copied().collect::<BTreeSet<_>>(), sides.keys().copied().collect());
    assert_eq!(audited.len(), sides.len());
    for (what, version) in &all.paired {
        assert!(sides.contains_key(what.as_str()), "{what} was acknowledged and is missing");
        let right = runs.iter().find(|run| run.metadata.name == format!("{what}-right")).unwrap();
        assert_eq!(right.metadata.resource_version, *version);
        let by_field = Selection::of(Kind::AgentDispatchRun).field("stack", what);
        assert_eq!(FleetStore::list(store, &by_field).await.unwrap().objects.len(), 2);
    }
    replay(store).await;
    deliveries.len() + runs.len()
}

/// Replaying the changes in order gives exactly the stored objects.
async fn replay(store: &Store) {
    let mut replayed: BTreeMap<(Kind, String), AnyObject> = BTreeMap::new();
    for (version, change) in (1..).zip(store.changes(0, usize::MAX).await.unwrap()) {
        assert_eq!(change.version, version, "a change is missing");
        let key = (change.object.kind, change.object.metadata.name.clone());
        match change.kind {
            ChangeKind::Added => assert!(replayed.insert(key, change.object).is_none()),
            ChangeKind::Modified => assert!(replayed.insert(key, change.object).is_some()),
            ChangeKind::Deleted => assert!(replayed.remove(&key).is_some()),
        }
    }
    for kind in Kind::ALL {
        let found = all_of(store, *kind).await;
        let expected = replayed.values().filter(|object| object.kind == *kind);
        assert_eq!(found.len(), expected.count());
        for object in found {
            assert_eq!(replayed.get(&(*kind, object.metadata.name.clone())), Some(&object));
        }
    }
}

#[test]
fn kill_loses_no_acknowledged_write_and_leaves_no_partial_transaction() {
    let mut random = Random::rotating("kills of writers");
    let kills = Depth::from_env().cases(200);
    let mut all = Acknowledged::default();
    let mut found = 0;
    let (mut received, mut paired) = (0, 0);
    let mut database = TestDatabase::new();
    for kill in 0..kills {
        // A new file from time to time: so the first writes are killed too, and checks stay fast.
        if kill % 10 == 0 {
            received += all.received.len();
            paired += all.paired.len();
            (database, all) = (TestDatabase::new(), Acknowledged::default());
            block_on(async {
                let counter = Write::Create(plain(Kind::ConfigMap, COUNTER, json!({})));
                database.open().await.commit(vec![counter], Moment::default()).await.unwrap();
            });
        }
        let name = format!("w{kill}");
        if random.once_in(4) {
            // Two workers, killed at about the same time.
            let mut others_acknowledged = Acknowledged::default();
            let mut own_random = Random::new(random.number());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    killed_worker(
                        &database,
                        &format!("{name}x"),
                        &mut own_random,
                        &mut others_acknowledged,
                    );
                });
                killed_worker(&database, &name, &mut random, &mut all);
            });
            all.received.append(&mut others_acknowledged.received);
            all.paired.append(&mut others_acknowledged.paired);
        } else {
            killed_worker(&database, &name, &mut random, &mut all);
        }
        found += block_on(async {
            let store = database.open().await;
            let found = check(&store, &all).await;
            // A redelivery is recognised.
            if let Some(name) = all.received.last() {
                let redelivery = delivery(name, name.as_bytes(), Moment::default());
                assert_eq!(store.receive(redelivery).await.unwrap(), Received::Redelivered);
            }
            found
        });
    }
    received += all.received.len();
    paired += all.paired.len();
    figure(&format!(
        "fleet: {kills} kills (SIGKILL) of writers: {received} webhooks and {paired} transactions of \
         five writes acknowledged before, all there; nothing half there in {found} objects looked at"
    ));
    assert!(received > 0 && paired > 0, "no write was acknowledged: this proves nothing");
}
