//! The SQL store answers as the plain model does.

use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use super::sequences::{Seen, sequence};
use crate::ledger_in_a_file::{Place, alone};

/// Everything that must have been tried.
const WANTED: [&str; 19] = [
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
    "page: Unavailable",
    "receive: New",
    "receive: Again",
    "receive: Contradicts",
    "receive: Unavailable",
    "a value",
    "no value",
    "bytes gone",
    "audit forgotten",
];

#[test]
fn the_sql_store_answers_as_the_plain_model_does() {
    let mut random = Random::rotating("fleet sequences");
    let mut seen = Seen::new();
    let sequences = Depth::from_env().cases(200);
    for _ in 0..sequences {
        let place = Place::new();
        alone(sequence(&mut random, 150, &mut seen, || place.open()));
    }
    // What is rare is waited for.
    for _ in 0..400 {
        if WANTED.iter().all(|what| seen.contains_key(*what)) {
            break;
        }
        let place = Place::new();
        alone(sequence(&mut random, 150, &mut seen, || place.open()));
    }
    figure(&format!(
        "fleet: {sequences} random sequences of 150 calls agree with the model: {seen:?}"
    ));
    for what in WANTED {
        assert!(seen.contains_key(what), "{what} was never seen: {seen:?}");
    }
}
