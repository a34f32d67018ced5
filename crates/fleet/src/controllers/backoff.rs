//! How long controllers wait before they try again, and the objects that back off between passes.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_model::backoff::Backoff;
use bailiwick_resources::Moment;

use super::summary::Task;

/// For objects that a controller processes in each pass: short, so that a repaired object is soon retried.
const OBJECTS: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// For deliveries that wait for a forge.
pub(super) const DELIVERIES: Backoff =
    Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// For what is written to a forge.
pub(super) const WRITES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(900));

/// How long an object that is not tried stays in the table.
const STALE_AFTER: Duration = Duration::from_secs(600);

/// When something is tried again after this number of earlier failures.
pub(super) fn retry_at(now: Moment, backoff: Backoff, earlier_failures: u32) -> Moment {
    after(now, backoff.delay(earlier_failures))
}

fn after(moment: Moment, delay: Duration) -> Moment {
    moment.plus_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
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
        entry.until = retry_at(now, OBJECTS, entry.failures);
        entry.failures = entry.failures.saturating_add(1);
    }

    pub(super) fn succeeded(&mut self, task: Task, name: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(task, name.to_owned()));
        }
    }

    /// Forgets objects that were not tried for so long that they must be gone.
    pub(super) fn forget_stale(&mut self, now: Moment) {
        self.0.retain(|_, entry| now < after(entry.until, STALE_AFTER));
    }
}
