//! The names and labels of the objects of an attempt.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifests::{INSTALLATION, Label};

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

/// The name of a Job: always the same one for this attempt and number, so that it is never made twice. Other
/// installations have other names, even for an attempt that is called the same.
pub fn job_name(installation: &Label, attempt: &str, number: u64) -> String {
    format!("attempt-{}-{number}", digest(installation, attempt))
}

fn digest(installation: &Label, attempt: &str) -> String {
    Sha256Hex::of(format!("{installation}/{attempt}")).prefix(DIGEST_LENGTH).to_owned()
}

/// The selector for the Jobs and pods of all attempts of an installation.
pub fn selector(installation: &Label) -> String {
    format!("{COMPONENT}=attempt,app.kubernetes.io/part-of=bailiwick,{INSTALLATION}={installation}")
}

/// The attempt of a Job, and its number among the Jobs of the attempt. Only Jobs that this installation has made have
/// a name that fits both.
pub fn attempt_and_number<'a>(
    metadata: &'a ObjectMeta,
    installation: &Label,
) -> Option<(&'a str, u64)> {
    let annotations = metadata.annotations.as_ref()?;
    let attempt = annotations.get(ATTEMPT)?;
    let number = annotations.get(NUMBER)?.parse().ok()?;
    let is_own = *metadata.labels.as_ref()?.get(INSTALLATION)? == installation.to_string()
        && *metadata.name.as_ref()? == job_name(installation, attempt, number);
    is_own.then_some((attempt.as_str(), number))
}

/// What an object of an attempt is called.
pub(super) fn metadata(
    namespace: &Label,
    installation: &Label,
    attempt: &str,
    pool: &str,
    number: u64,
) -> ObjectMeta {
    let annotations =
        [(ATTEMPT.to_owned(), attempt.to_owned()), (NUMBER.to_owned(), number.to_string())];
    ObjectMeta {
        name: Some(job_name(installation, attempt, number)),
        namespace: Some(namespace.to_string()),
        labels: Some(labels(installation, attempt, pool)),
        annotations: Some(annotations.into()),
        ..ObjectMeta::default()
    }
}

fn labels(installation: &Label, attempt: &str, pool: &str) -> BTreeMap<String, String> {
    let mut labels = common_labels(installation);
    labels.insert(DIGEST.to_owned(), digest(installation, attempt));
    if pool.len() <= MAX_LABEL_LENGTH {
        labels.insert(POOL.to_owned(), pool.to_owned());
    }
    labels
}

/// The labels of what belongs to attempts of an installation.
pub(super) fn common_labels(installation: &Label) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "bailiwick".to_owned()),
        ("app.kubernetes.io/part-of".to_owned(), "bailiwick".to_owned()),
        (COMPONENT.to_owned(), "attempt".to_owned()),
        (INSTALLATION.to_owned(), installation.to_string()),
    ])
}
