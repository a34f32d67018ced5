//! Whatever had trouble rests for a while, and nobody else does.
//!
//! It is kept by whoever takes the turns, and forgotten with it: it says only when something is tried again, never
//! what is to be done.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;

/// How long it rests after the first trouble, in milliseconds; twice as long after each that follows.
const INITIAL_BACKOFF: u64 = 2_000;
/// How long at the most: whoever has mended it need not wait for long.
const MAX_BACKOFF: u64 = 60_000;

/// What had trouble, and when it is looked at again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resting(BTreeMap<(&'static str, String), Rest>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rest {
    troubles: u32,
    until: Moment,
}

impl Resting {
    /// Whether it is not looked at yet.
    pub(super) fn rests(&self, what: &'static str, name: &str, now: Moment) -> bool {
        self.0.get(&(what, name.to_owned())).is_some_and(|rest| now < rest.until)
    }

    /// It had trouble.
    pub(super) fn trouble(&mut self, what: &'static str, name: &str, now: Moment) {
        let rest = self
            .0
            .entry((what, name.to_owned()))
            .or_insert(Rest { troubles: 0, until: Moment::default() });
        let wait = INITIAL_BACKOFF.saturating_mul(1 << rest.troubles.min(16)).min(MAX_BACKOFF);
        rest.troubles = rest.troubles.saturating_add(1);
        rest.until = now.plus_millis(wait);
    }

    /// It has none.
    pub(super) fn well(&mut self, what: &'static str, name: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(what, name.to_owned()));
        }
    }

    /// Forgets what was not looked at for so long that it is gone.
    pub(super) fn forget_gone(&mut self, now: Moment) {
        self.0.retain(|_, rest| now < rest.until.plus_millis(10 * MAX_BACKOFF));
    }
}
