//! What failed, and when it is tried again: each attempt and each namespace by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_kubernetes::manifests::Label;
use bailiwick_model::backoff::Backoff;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use thiserror::Error;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// What was not tried for so long is gone.
const STALE: SignedDuration = SignedDuration::from_secs(600);

/// What a part of a round is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Subject {
    #[error("the namespace {0}")]
    Namespace(Label),
    #[error("the attempt {0}")]
    Attempt(String),
    #[error("the Job {0}")]
    Job(String),
    #[error("the secret {0}")]
    Secret(String),
}

/// The subjects that failed. They are not stored: they only decide when something is tried again.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<Subject, Entry>);

#[derive(Debug)]
struct Entry {
    failures: u32,
    since: Timestamp,
}

impl Entry {
    fn delay(&self) -> SignedDuration {
        let delay = BACKOFF.delay(self.failures.saturating_sub(1));
        SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX)
    }
}

impl Retries {
    pub(super) fn is_due(&self, subject: &Subject, now: Timestamp) -> bool {
        self.0.get(subject).is_none_or(|entry| now.duration_since(entry.since) >= entry.delay())
    }

    pub(super) fn failed(&mut self, subject: Subject, now: Timestamp) {
        let before = self.0.get(&subject).map_or(0, |entry| entry.failures);
        self.0.insert(subject, Entry { failures: before.saturating_add(1), since: now });
    }

    pub(super) fn succeeded(&mut self, subject: &Subject) {
        self.0.remove(subject);
    }

    pub(super) fn forget_stale(&mut self, now: Timestamp) {
        self.0.retain(|_, entry| now.duration_since(entry.since) < STALE);
    }
}

#[cfg(test)]
mod tests {
    use super::{Retries, Subject};
    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    #[test]
    fn retries_of_each_subject_back_off_exponentially() {
        let (one, other) = (Subject::Attempt("a".to_owned()), Subject::Attempt("b".to_owned()));
        let mut retries = Retries::default();
        let mut now = Timestamp::UNIX_EPOCH;
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            retries.failed(one.clone(), now);
            let almost = now + SignedDuration::from_millis(seconds * 1_000 - 1);
            assert!(!retries.is_due(&one, almost) && retries.is_due(&other, almost), "{seconds}");
            now += SignedDuration::from_secs(seconds);
            assert!(retries.is_due(&one, now), "{seconds}");
        }
        retries.succeeded(&one);
        retries.failed(one.clone(), now);
        assert!(retries.is_due(&one, now + SignedDuration::from_secs(2)));
        retries.forget_stale(now + SignedDuration::from_secs(600));
        assert!(retries.is_due(&one, now));
    }
}
