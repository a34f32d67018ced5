//! Ancestors and descendants in random forests, with unknown parents and cycles, agree with a naive model.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_lifecycle::ports::{NewRun, RunStore as _, StoreError};
use bailiwick_store::Store;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use crate::test_database::{TestDatabase, id, run};

/// The parents of each run, by id; a run names its parent by id or by branch.
type Parents = BTreeMap<String, BTreeSet<String>>;

fn parents(runs: &[NewRun]) -> Parents {
    let of = |child: &NewRun| {
        let named = |run: &&NewRun| {
            let parent = child.parent.as_deref();
            parent == Some(run.id.as_str()) || parent == Some(run.branch.as_str())
        };
        runs.iter().filter(named).map(|run| run.id.to_string()).collect()
    };
    runs.iter().map(|child| (child.id.to_string(), of(child))).collect()
}

/// `start` and all its ancestors, computed naively.
fn above(parents: &Parents, start: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::from([start.to_owned()]);
    loop {
        let parents_of_found: BTreeSet<String> =
            found.iter().filter_map(|name| parents.get(name)).flatten().cloned().collect();
        if parents_of_found.is_subset(&found) {
            return found;
        }
        found.extend(parents_of_found);
    }
}

/// The distance of each ancestor from `start`.
fn distances(parents: &Parents, start: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::from([(start.to_owned(), 0)]);
    for step in 1..=parents.len() {
        let reached = found.keys().filter_map(|name| parents.get(name)).flatten().cloned();
        for name in reached.collect::<Vec<_>>() {
            found.entry(name).or_insert(step);
        }
    }
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), above(parents, start));
    found
}

fn below(parents: &Parents, start: &str) -> BTreeSet<String> {
    let is_below = |name: &&String| above(parents, name).contains(start);
    parents.keys().filter(is_below).cloned().collect()
}

/// `start` and its ancestors in order, if each run has at most one parent.
fn line(parents: &Parents, start: &str) -> Vec<String> {
    let mut path = vec![start.to_owned()];
    while let Some(next) = path.last().and_then(|name| parents.get(name)?.first().cloned()) {
        if path.contains(&next) {
            break;
        }
        path.push(next);
    }
    path
}

async fn record(store: &Store, runs: &[NewRun]) {
    for run in runs {
        store.record(run, None).await.unwrap();
    }
}

async fn descendants(store: &Store, name: &str) -> Vec<String> {
    let runs = store.descendants(&id(name)).await.unwrap();
    runs.into_iter().map(|run| run.id.to_string()).collect()
}

async fn ancestors(store: &Store, name: &str) -> Vec<String> {
    let runs = store.ancestors(&id(name)).await.unwrap();
    runs.into_iter().map(|run| run.id.to_string()).collect()
}

/// Runs on separate branches; the parent is named by id, by branch, or is unknown. With `cycles` a parent can also
/// be a later run or the run itself.
fn forest(random: &mut Random, size: usize, cycles: bool) -> Vec<NewRun> {
    let names: Vec<String> = (0..size).map(|number| format!("run-{number}")).collect();
    let new_run = |number: usize| {
        let choice = if cycles { random.below(size) } else { random.below(number) };
        let parent = match random.below(6) {
            _ if number == 0 && !cycles => None,
            0 => None,
            1 => Some("main".to_owned()),
            2 | 3 => Some(names[choice].clone()),
            _ => Some(format!("agent/{}", names[choice])),
        };
        NewRun { parent, ..run(&names[number]) }
    };
    (0..size).map(new_run).collect()
}

#[tokio::test]
async fn ancestors_and_descendants_agree_with_the_model() {
    let mut random = Random::rotating("forests");
    for case in 0..Depth::from_env().cases(200) {
        let database = TestDatabase::new();
        let store = database.open().await;
        let size = 1 + random.below(14);
        let cycles = case % 3 == 0;
        let runs = forest(&mut random, size, cycles);
        record(&store, &runs).await;
        let parents = parents(&runs);
        for name in parents.keys() {
            let found = descendants(&store, name).await;
            let expected = below(&parents, name);
            assert_eq!(found.len(), expected.len(), "a run is listed twice: {found:?}\n{runs:?}");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{name}\n{runs:?}");
            assert_eq!(ancestors(&store, name).await, line(&parents, name), "{name}\n{runs:?}");
        }
    }
}

#[tokio::test]
async fn with_shared_branches_ancestors_and_descendants_agree_with_the_model() {
    let mut random = Random::rotating("shared branches");
    for _ in 0..Depth::from_env().cases(200) {
        let database = TestDatabase::new();
        let store = database.open().await;
        let size = 2 + random.below(8);
        let runs: Vec<NewRun> = (0..size)
            .map(|number| {
                let branch = format!("feature-{}", random.below(3));
                let parent = match random.below(4) {
                    0 => None,
                    1 => Some(format!("run-{}", random.below(size))),
                    _ => Some(format!("feature-{}", random.below(4))),
                };
                NewRun { branch, parent, ..run(&format!("run-{number}")) }
            })
            .collect();
        record(&store, &runs).await;
        let parents = parents(&runs);
        for name in parents.keys() {
            let found: BTreeSet<String> = descendants(&store, name).await.into_iter().collect();
            assert_eq!(found, below(&parents, name), "{name}\n{runs:?}");
            let found = ancestors(&store, name).await;
            let distance = distances(&parents, name);
            assert_eq!(found.len(), distance.len(), "{name}: {found:?}\n{runs:?}");
            let walked: Vec<_> = found.iter().map(|found| distance.get(found)).collect();
            assert!(walked.iter().all(Option::is_some), "{name}: {found:?}\n{runs:?}");
            assert!(walked.is_sorted(), "{name}: {found:?} is not nearest first\n{runs:?}");
        }
    }
}

#[tokio::test]
async fn run_that_is_its_own_parent_is_listed_once() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let by_id = NewRun { parent: Some("ouroboros".to_owned()), ..run("ouroboros") };
    let by_branch = NewRun { parent: Some("agent/snake".to_owned()), ..run("snake") };
    record(&store, &[by_id, by_branch]).await;
    for name in ["ouroboros", "snake"] {
        assert_eq!(descendants(&store, name).await, [name]);
        assert_eq!(ancestors(&store, name).await, [name]);
    }
}

#[tokio::test]
async fn error_for_an_unknown_run_names_the_nearest_one() {
    let database = TestDatabase::new();
    let store = database.open().await;
    record(&store, &[run("parser-positions-1"), run("review-cli"), run("zz")]).await;
    let unknown = id("parser-position-1");
    let answers = [
        store.descendants(&unknown).await.err(),
        store.ancestors(&unknown).await.err(),
        store.get(&unknown).await.err(),
        store.finish_spawn(&unknown).await.err(),
    ];
    for answer in answers {
        match answer {
            Some(StoreError::NoSuchRun { id, near }) => {
                assert_eq!(id, "parser-position-1");
                assert_eq!(near.as_deref(), Some("parser-positions-1"));
            }
            other => panic!("{other:?}"),
        }
    }
    match store.descendants(&id("nothing-like-it-at-all")).await {
        Err(error @ StoreError::NoSuchRun { .. }) => {
            assert_eq!(error.to_string(), "there is no run `nothing-like-it-at-all`");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn created_and_forked_runs_are_found_by_dna() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let dna = "edit-local::NG-FW::AAAA::BBBB-0001";
    let created = NewRun { creator: Some(dna.to_owned()), ..run("created") };
    let forked = NewRun { fork_parent: Some(dna.to_owned()), ..run("forked") };
    let stranger = NewRun { creator: Some(format!("{dna}x")), ..run("stranger") };
    let itself = NewRun { dna: Some(dna.to_owned()), ..run("itself") };
    record(&store, &[created, forked, stranger, itself]).await;
    let found = store.forked_or_created_by(dna).await.unwrap();
    let found: BTreeSet<&str> = found.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(found, BTreeSet::from(["created", "forked"]));
}
