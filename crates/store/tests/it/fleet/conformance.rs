//! The SQL store agrees with the in-memory model.

use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use super::sequences::{ResultCounts, sequence};
use crate::test_database::{TestDatabase, block_on};

/// Results that must have occurred.
const REQUIRED: [&str; 19] = [
    "commit",
    "commit: NotFound",
    "commit: AlreadyExists",
    "commit: Conflict",
    "commit: Unavailable",
    "many statuses",
    "changes: Gone",
    "next page",
    "page by one term with objects",
    "page by many terms with objects",
    "page: InvalidContinuation",
    "receive: New",
    "receive: Redelivered",
    "receive: ConflictingBytes",
    "receive: Unavailable",
    "a value",
    "no value",
    "bytes deleted",
    "audit forgotten",
];

#[test]
fn sql_store_agrees_with_the_in_memory_model() {
    let mut random = Random::rotating("fleet sequences");
    let mut results = ResultCounts::new();
    let sequences = Depth::from_env().cases(200);
    for _ in 0..sequences {
        let database = TestDatabase::new();
        block_on(sequence(&mut random, 150, &mut results, || database.open()));
    }
    // Continue until the rare results occurred.
    for _ in 0..400 {
        if REQUIRED.iter().all(|what| results.contains_key(*what)) {
            break;
        }
        let database = TestDatabase::new();
        block_on(sequence(&mut random, 150, &mut results, || database.open()));
    }
    figure(&format!(
        "fleet: {sequences} random sequences of 150 calls agree with the model: {results:?}"
    ));
    for what in REQUIRED {
        assert!(results.contains_key(what), "{what} was never seen: {results:?}");
    }
}
