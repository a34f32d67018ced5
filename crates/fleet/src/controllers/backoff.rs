//! Exponential backoff, and the objects that back off between passes.

use std::collections::BTreeMap;

use bailiwick_resources::Moment;

use super::summary::Task;

/// A delay that doubles with each failure, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial_millis: u64,
    max_millis: u64,
}

impl Backoff {
    /// For objects that a controller processes in each pass: short, so that a repaired object is soon retried.
    pub(super) const OBJECTS: Self = Self::new(2_000, 60_000);
    /// For deliveries that wait for a forge.
    pub(super) const DELIVERIES: Self = Self::new(1_000, 60_000);
    /// For what is written to a forge.
    pub(super) const WRITES: Self = Self::new(1_000, 15 * 60 * 1_000);

    pub const fn new(initial_millis: u64, max_millis: u64) -> Self {
        Self { initial_millis, max_millis }
    }

    /// The delay after this number of earlier failures, in milliseconds.
    pub fn delay(self, earlier_failures: u32) -> u64 {
        let factor = 1_u64.checked_shl(earlier_failures).unwrap_or(u64::MAX);
        self.initial_millis.saturating_mul(factor).min(self.max_millis)
    }
}

/// Failed objects, and when each is retried. It lives as long as the reconcile loop and is not stored: it only
/// decides when an object is retried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetryTable(BTreeMap<(Task, String), Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    failures: u32,
    until: Moment,
}

impl RetryTable {
    /// Whether it is still skipped.
    pub(super) fn is_backing_off(&self, task: Task, name: &str, now: Moment) -> bool {
        self.0.get(&(task, name.to_owned())).is_some_and(|entry| now < entry.until)
    }

    pub(super) fn failed(&mut self, task: Task, name: &str, now: Moment) {
        let entry = self
            .0
            .entry((task, name.to_owned()))
            .or_insert(Entry { failures: 0, until: Moment::default() });
        entry.until = now.plus_millis(Backoff::OBJECTS.delay(entry.failures));
        entry.failures = entry.failures.saturating_add(1);
    }

    pub(super) fn succeeded(&mut self, task: Task, name: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(task, name.to_owned()));
        }
    }

    /// Forgets objects that were not tried for so long that they must be gone.
    pub(super) fn forget_stale(&mut self, now: Moment) {
        let stale = 10 * Backoff::OBJECTS.max_millis;
        self.0.retain(|_, entry| now < entry.until.plus_millis(stale));
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    #[test]
    fn delay_doubles_up_to_its_maximum() {
        let delays: Vec<u64> = (0..7).map(|failures| Backoff::OBJECTS.delay(failures)).collect();
        assert_eq!(delays, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        for backoff in [Backoff::OBJECTS, Backoff::DELIVERIES, Backoff::WRITES] {
            for failures in [30, 63, 64, u32::MAX] {
                assert_eq!(backoff.delay(failures), backoff.max_millis);
            }
        }
    }
}
