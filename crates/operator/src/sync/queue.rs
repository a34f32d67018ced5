//! What has to be looked at, each object once however often it changed, and never by two workers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_model::backoff::Backoff;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cache::Key;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(120));

/// The objects that wait.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// In the order in which they are due.
    order: BTreeSet<(Instant, Key)>,
    due: BTreeMap<Key, Instant>,
    busy: BTreeSet<Key>,
    /// Those that changed while they were looked at.
    again: BTreeMap<Key, Instant>,
    failures: BTreeMap<Key, u32>,
}

impl State {
    /// The earlier time counts.
    fn schedule(&mut self, key: Key, at: Instant) {
        if self.busy.contains(&key) {
            let again = self.again.entry(key).or_insert(at);
            *again = at.min(*again);
            return;
        }
        if let Some(known) = self.due.get(&key).copied() {
            if known <= at {
                return;
            }
            self.order.remove(&(known, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
    }
}

impl State {
    /// The first object if it is due, else when it is.
    fn take(&mut self, now: Instant) -> Result<Key, Option<Instant>> {
        let Some((due, key)) = self.order.first().cloned() else { return Err(None) };
        if due > now {
            return Err(Some(due));
        }
        self.order.remove(&(due, key.clone()));
        self.due.remove(&key);
        self.busy.insert(key.clone());
        Ok(key)
    }

    fn done(&mut self, key: Key, again: Option<Duration>, now: Instant) {
        self.failures.remove(&key);
        self.release(key, again.map(|delay| now + delay));
    }

    fn failed(&mut self, key: Key, now: Instant) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = BACKOFF.delay(*failures);
        *failures = failures.saturating_add(1);
        // A change meanwhile does not make it sooner: it would fail as often as others write.
        self.again.remove(&key);
        self.release(key, Some(now + delay));
    }

    fn release(&mut self, key: Key, later: Option<Instant>) {
        self.busy.remove(&key);
        let changed = self.again.remove(&key);
        if let Some(at) = changed.into_iter().chain(later).min() {
            self.schedule(key, at);
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an object looked at after a delay.
    pub(super) fn add(&self, key: Key, delay: Duration) {
        self.state().schedule(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// The next object that is due. Its caller calls `done` or `failed`.
    pub(super) async fn next(&self) -> Key {
        loop {
            let first = self.state().take(Instant::now());
            let due = match first {
                Ok(key) => {
                    // Another worker may take what is due next.
                    self.changed.notify_one();
                    return key;
                }
                Err(due) => due,
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    /// It is as it should be, or has to be looked at again after a delay.
    pub(super) fn done(&self, key: Key, again: Option<Duration>) {
        self.state().done(key, again, Instant::now());
        self.changed.notify_one();
    }

    /// It failed, and is tried again later each time.
    pub(super) fn failed(&self, key: Key) {
        self.state().failed(key, Instant::now());
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> Key {
        (Kind::AgentStack, name.to_owned())
    }

    #[test]
    fn frequent_changes_are_reconciled_once_after_the_first_delay() {
        let (mut state, now) = (State::default(), Instant::now());
        state.schedule(key("a"), now + SECOND);
        state.schedule(key("a"), now + 2 * SECOND);
        state.schedule(key("b"), now + 2 * SECOND);
        assert_eq!(state.take(now), Err(Some(now + SECOND)));
        assert_eq!(state.take(now + SECOND), Ok(key("a")));
        state.done(key("a"), None, now + SECOND);
        assert_eq!(state.take(now + 2 * SECOND), Ok(key("b")), "`a` is not queued again");
        assert_eq!(state.take(now + 9 * SECOND), Err(None));
    }

    #[test]
    fn change_during_a_reconciliation_is_reconciled_afterwards() {
        let (mut state, now) = (State::default(), Instant::now());
        state.schedule(key("a"), now);
        assert_eq!(state.take(now), Ok(key("a")));
        state.schedule(key("a"), now);
        assert_eq!(state.take(now), Err(None), "`a` is being reconciled");
        state.done(key("a"), None, now);
        assert_eq!(state.take(now), Ok(key("a")));
    }

    #[test]
    fn repeated_failures_back_off() {
        let (mut state, mut now) = (State::default(), Instant::now());
        state.schedule(key("a"), now);
        let mut waits = Vec::new();
        for _ in 0..12 {
            let begun = now;
            if let Err(Some(due)) = state.take(now) {
                now = due;
                assert_eq!(state.take(now), Ok(key("a")));
            }
            waits.push(now - begun);
            // The object changes all the time.
            state.schedule(key("a"), now);
            state.failed(key("a"), now);
        }
        assert!(waits.is_sorted() && waits[2] < waits[5], "{waits:?}");
        assert_eq!(waits[11], BACKOFF.max());
    }
}
