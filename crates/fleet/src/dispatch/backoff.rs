//! Exponential backoff: an object that failed is skipped for a while, and only that object.
//!
//! It lives as long as the loop that takes turns and is not stored: it says when something is tried again, never
//! what must be done.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;

/// The wait after the first failure, in milliseconds; it doubles with each further one.
const INITIAL_BACKOFF: u64 = 2_000;
/// The longest wait: short enough that a repaired object is tried again soon.
const MAX_BACKOFF: u64 = 60_000;

/// Objects that failed, and when each is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff(BTreeMap<(&'static str, String), Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    failures: u32,
    until: Moment,
}

impl Backoff {
    /// Whether it is still skipped.
    pub(super) fn is_backing_off(&self, what: &'static str, name: &str, now: Moment) -> bool {
        self.0.get(&(what, name.to_owned())).is_some_and(|entry| now < entry.until)
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, what: &'static str, name: &str, now: Moment) {
        let entry = self
            .0
            .entry((what, name.to_owned()))
            .or_insert(Entry { failures: 0, until: Moment::default() });
        let wait = INITIAL_BACKOFF.saturating_mul(1 << entry.failures.min(16)).min(MAX_BACKOFF);
        entry.failures = entry.failures.saturating_add(1);
        entry.until = now.plus_millis(wait);
    }

    /// Records a success.
    pub(super) fn succeeded(&mut self, what: &'static str, name: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(what, name.to_owned()));
        }
    }

    /// Forgets objects that were not tried for so long that they must be gone.
    pub(super) fn forget_stale(&mut self, now: Moment) {
        self.0.retain(|_, entry| now < entry.until.plus_millis(10 * MAX_BACKOFF));
    }
}
