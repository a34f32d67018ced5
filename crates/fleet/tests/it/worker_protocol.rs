//! Messages between workers and servers of different versions. `data/worker-protocol/<version>/` has the messages of
//! that version: never change a file of a released version.

#![expect(clippy::disallowed_methods, reason = "the messages are files")]

use std::path::{Path, PathBuf};

use bailiwick_fleet::workers::{
    FinishReport, JoinAnswer, JoinRequest, PollAnswer, ProgressAnswer, ProgressReport,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"))
}

/// The directory of each version.
fn versions() -> Vec<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/worker-protocol");
    let all = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    all.collect()
}

/// Whether the new message contains everything of the old message at the same place.
fn contains(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(name, old)| new.get(name).is_some_and(|new| contains(new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| contains(new, old))
        }
        (new, old) => new == old,
    }
}

/// This version reads the message and writes all of it in the same form.
fn assert_unchanged<T: Serialize + DeserializeOwned>(version: &Path, name: &str) {
    let old = read(&version.join(name));
    let message = serde_json::from_value::<T>(old.clone());
    let message = message.unwrap_or_else(|error| panic!("{version:?} {name}: {error}"));
    let new = serde_json::to_value(message).unwrap();
    assert!(contains(&new, &old), "{version:?} {name}: {new:#}");
}

#[test]
fn messages_of_older_versions_keep_their_meaning() {
    let versions = versions();
    assert!(!versions.is_empty());
    for version in versions {
        assert_unchanged::<JoinRequest>(&version, "join-request.json");
        assert_unchanged::<JoinAnswer>(&version, "join-answer.json");
        assert_unchanged::<PollAnswer>(&version, "poll-answer.json");
        assert_unchanged::<ProgressReport>(&version, "progress-report.json");
        assert_unchanged::<ProgressAnswer>(&version, "progress-answer.json");
        assert_unchanged::<FinishReport>(&version, "finish-report.json");
    }
}

/// Adds an unknown field to an object and to all objects in these fields of it.
fn with_unknown_fields(message: &mut Value, fields: &[&str]) {
    for field in fields {
        with_unknown_fields(&mut message[*field], &[]);
    }
    message["ofANewerVersion"] = json!(true);
}

#[test]
fn unknown_fields_of_newer_versions_are_ignored_except_in_limits() {
    for version in versions() {
        let newer = |name: &str, fields: &[&str]| {
            let mut message = read(&version.join(name));
            with_unknown_fields(&mut message, fields);
            message
        };
        let join = newer("join-request.json", &["capabilities"]);
        serde_json::from_value::<JoinRequest>(join).unwrap();
        serde_json::from_value::<JoinAnswer>(newer("join-answer.json", &[])).unwrap();
        let report = newer("progress-report.json", &["cost"]);
        let report = serde_json::from_value::<ProgressReport>(report).unwrap();
        assert_eq!(report.cost.micro_usd, 20, "known fields are kept");
        serde_json::from_value::<ProgressAnswer>(newer("progress-answer.json", &[])).unwrap();
        let finish = newer("finish-report.json", &["summary", "work"]);
        serde_json::from_value::<FinishReport>(finish).unwrap();
        let mut poll = newer("poll-answer.json", &["assignment"]);
        with_unknown_fields(&mut poll["assignment"], &["lease", "launch"]);
        serde_json::from_value::<PollAnswer>(poll.clone()).unwrap();
        // A worker cannot enforce an unknown limit, so it must not start the attempt.
        with_unknown_fields(&mut poll["assignment"]["launch"]["limits"], &[]);
        assert!(serde_json::from_value::<PollAnswer>(poll).is_err());
    }
}
