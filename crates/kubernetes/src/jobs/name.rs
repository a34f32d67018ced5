//! The names and labels of the objects of an attempt.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifests::Label;

/// The label of what belongs to attempts. Its value is `attempt`.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// The annotation with the attempt: the run of the ledger. Labels are too short for some.
pub const ATTEMPT: &str = "bailiwick.dev/attempt";
/// The key of the token in its secret.
pub const TOKEN_KEY: &str = "token";
/// The annotation with the number of the Job among those of its attempt.
const NUMBER: &str = "bailiwick.dev/job-number";
/// The label with the digest of the attempt.
const DIGEST: &str = "bailiwick.dev/attempt-digest";
/// The label with the pool.
const POOL: &str = "bailiwick.dev/pool";
const DIGEST_LENGTH: usize = 24;
const MAX_LABEL_LENGTH: usize = 63;

/// The name of a Job: always the same one for this attempt and number, so that it is never made twice.
pub fn job_name(attempt: &str, number: u64) -> String {
    format!("attempt-{}-{number}", Sha256Hex::of(attempt).prefix(DIGEST_LENGTH))
}

/// The selector for the Jobs and pods of all attempts.
pub fn selector() -> String {
    format!("{COMPONENT}=attempt,app.kubernetes.io/part-of=bailiwick")
}

/// The attempt of an object, if it belongs to one.
pub fn attempt_of(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(ATTEMPT).map(String::as_str)
}

/// The number of a Job among those of its attempt.
pub fn number_of(metadata: &ObjectMeta) -> Option<u64> {
    metadata.annotations.as_ref()?.get(NUMBER)?.parse().ok()
}

/// What an object of an attempt is called.
pub(super) fn metadata(namespace: &Label, attempt: &str, pool: &str, number: u64) -> ObjectMeta {
    let annotations =
        [(ATTEMPT.to_owned(), attempt.to_owned()), (NUMBER.to_owned(), number.to_string())];
    ObjectMeta {
        name: Some(job_name(attempt, number)),
        namespace: Some(namespace.to_string()),
        labels: Some(labels(attempt, pool)),
        annotations: Some(annotations.into()),
        ..ObjectMeta::default()
    }
}

fn labels(attempt: &str, pool: &str) -> BTreeMap<String, String> {
    let mut labels = common_labels();
    labels.insert(DIGEST.to_owned(), Sha256Hex::of(attempt).prefix(DIGEST_LENGTH).to_owned());
    if pool.len() <= MAX_LABEL_LENGTH {
        labels.insert(POOL.to_owned(), pool.to_owned());
    }
    labels
}

/// The labels of what belongs to attempts.
pub(super) fn common_labels() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "bailiwick".to_owned()),
        ("app.kubernetes.io/part-of".to_owned(), "bailiwick".to_owned()),
        (COMPONENT.to_owned(), "attempt".to_owned()),
    ])
}
