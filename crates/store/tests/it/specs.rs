//! Tasks are found by their digest, and runs by a prefix of their DNA.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_lifecycle::ports::{NewRun, RunStore as _, spec_sha};
use bailiwick_model::Sha256Hex;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;
use sqlx::Row as _;

use crate::test_database::{TestDatabase, run};

#[tokio::test]
async fn task_is_found_by_its_digest_and_by_any_unique_prefix() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let mut texts = BTreeMap::new();
    for number in 0..60 {
        let text = format!("# größer {number}\n[task]\nrole = \"x\"\n\n");
        let sha = spec_sha(&text).to_string();
        let new = NewRun { spec_sha: sha.clone(), ..run(&format!("run-{number}")) };
        store.record(&new, Some(&text)).await.unwrap();
        texts.insert(sha, text);
    }
    let mut ambiguous = 0;
    for sha in texts.keys() {
        for length in 0..=sha.len() {
            let prefix = sha.get(..length).unwrap();
            let mut matching = texts.iter().filter(|(sha, _)| sha.starts_with(prefix));
            let expected = match (matching.next(), matching.next()) {
                (Some((_, only)), None) => Some(only.clone()),
                _ => {
                    ambiguous += 1;
                    None
                }
            };
            assert_eq!(store.spec(prefix).await.unwrap(), expected, "{prefix:?}");
        }
    }
    assert!(ambiguous > texts.len(), "sixty digests share a first digit: {ambiguous}");
    for unknown in ["g", "%", "_", "' OR 1=1 --"] {
        assert_eq!(store.spec(unknown).await.unwrap(), None, "{unknown:?}");
    }
}

#[tokio::test]
async fn task_that_is_recorded_twice_is_stored_once() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let sha = Sha256Hex::of("task").to_string();
    for name in ["first", "second"] {
        let new_run = NewRun { spec_sha: sha.clone(), ..run(name) };
        store.record(&new_run, Some("task")).await.unwrap();
    }
    assert_eq!(store.spec(&sha).await.unwrap().as_deref(), Some("task"));
    let mut connection = database.connect().await;
    let count = sqlx::query("SELECT COUNT(*) FROM specs").fetch_one(&mut connection).await.unwrap();
    assert_eq!(count.get::<i64, _>(0), 1);
}

#[tokio::test]
async fn run_can_have_any_digest_and_no_task() {
    let database = TestDatabase::new();
    let store = database.open().await;
    for (number, sha) in ["", "abc", "not hex at all", &"f".repeat(200)].into_iter().enumerate() {
        let new_run = NewRun { spec_sha: sha.to_owned(), ..run(&format!("run-{number}")) };
        store.record(&new_run, None).await.unwrap();
        assert_eq!(store.get(&new_run.id).await.unwrap().spec_sha, sha);
        assert_eq!(store.spec(sha).await.unwrap(), None, "no text is stored for {sha:?}");
    }
}

#[tokio::test]
async fn refused_run_stores_no_task() {
    let database = TestDatabase::new();
    let store = database.open().await;
    store.record(&NewRun { spec_sha: "aa".to_owned(), ..run("taken") }, Some("a")).await.unwrap();
    let duplicate = NewRun { spec_sha: "bb".to_owned(), ..run("taken") };
    store.record(&duplicate, Some("b")).await.unwrap_err();
    assert_eq!(store.spec("bb").await.unwrap(), None);
    assert_eq!(store.spec("aa").await.unwrap().as_deref(), Some("a"));
}

/// A small alphabet gives long common prefixes; `%` and `_` are special in LIKE.
fn identity(random: &mut Random) -> String {
    let letters = ['a', 'A', '%', '_', ':', 'é', '\u{1f600}'];
    let length = random.below(45);
    let letter = |_| match random.below(8) {
        rare @ 0..=5 => letters[1 + rare],
        _ => letters[0],
    };
    (0..length).map(letter).collect()
}

#[tokio::test]
async fn dna_prefixes_agree_with_a_naive_filter() {
    let mut random = Random::rotating("identities");
    for _ in 0..Depth::from_env().cases(40) {
        let database = TestDatabase::new();
        let store = database.open().await;
        let stem: String = std::iter::repeat_n("a_%é", 9).collect();
        let mut identities = Vec::new();
        for number in 0..40 {
            let dna = match random.below(4) {
                0 => None,
                1 => Some(identity(&mut random)),
                // A common prefix longer than the index.
                _ => {
                    let length = 20 + random.below(stem.chars().count() - 19);
                    let prefix: String = stem.chars().take(length).collect();
                    Some(prefix + &identity(&mut random))
                }
            };
            let new = NewRun { dna: dna.clone(), ..run(&format!("run-{number}")) };
            store.record(&new, None).await.unwrap();
            identities.push((new.id.to_string(), dna));
        }
        let with = |prefix: &str| -> BTreeSet<String> {
            let starts_with =
                |dna: &Option<String>| dna.as_ref().is_some_and(|dna| dna.starts_with(prefix));
            identities
                .iter()
                .filter(|(_, dna)| starts_with(dna))
                .map(|(id, _)| id.clone())
                .collect()
        };
        let (mut short, mut long) = (0, 0);
        for (_, dna) in &identities {
            let Some(dna) = dna else { continue };
            let total = dna.chars().count();
            for length in [0, 1, random.below(total + 1), 29, 30, 31, total] {
                let mut prefix: String = dna.chars().take(length).collect();
                if random.once_in(5) {
                    prefix.push(['a', '%', '_', 'é'][random.below(4)]);
                }
                let found = store.find_by_dna_prefix(&prefix).await.unwrap();
                let found: BTreeSet<String> = found.iter().map(|run| run.id.to_string()).collect();
                assert_eq!(found, with(&prefix), "{prefix:?} of {identities:?}");
                let wide = prefix.chars().count() > 30;
                (short, long) = (short + usize::from(!wide), long + usize::from(wide));
            }
        }
        assert!(short > 0 && long > 0, "{short} short and {long} long prefixes");
    }
}
