//! What has to be looked at, each object once however often it changed, and never by two workers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::cache::Key;

const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const MAX_BACKOFF: Duration = Duration::from_secs(120);

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
            let first = self.take();
            let due = match first {
                Ok(key) => return key,
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

    /// The first object if it is due, else when it is.
    fn take(&self) -> Result<Key, Option<Instant>> {
        let mut state = self.state();
        let Some((due, key)) = state.order.first().cloned() else { return Err(None) };
        if due > Instant::now() {
            return Err(Some(due));
        }
        state.order.remove(&(due, key.clone()));
        state.due.remove(&key);
        state.busy.insert(key.clone());
        drop(state);
        // Another worker may take what is due next.
        self.changed.notify_one();
        Ok(key)
    }

    /// It is as it should be, or has to be looked at again after a delay.
    pub(super) fn done(&self, key: Key, again: Option<Duration>) {
        let mut state = self.state();
        state.failures.remove(&key);
        Self::release(&mut state, key, again);
        drop(state);
        self.changed.notify_one();
    }

    /// It failed, and is tried again later each time.
    pub(super) fn failed(&self, key: Key) {
        let mut state = self.state();
        let failures = state.failures.entry(key.clone()).or_default();
        let delay = FIRST_BACKOFF.saturating_mul(1 << (*failures).min(16)).min(MAX_BACKOFF);
        *failures = failures.saturating_add(1);
        // A change meanwhile does not make it sooner: it would fail as often as others write.
        state.again.remove(&key);
        Self::release(&mut state, key, Some(delay));
        drop(state);
        self.changed.notify_one();
    }

    fn release(state: &mut State, key: Key, again: Option<Duration>) {
        state.busy.remove(&key);
        let changed = state.again.remove(&key);
        let later = again.map(|delay| Instant::now() + delay);
        if let Some(at) = changed.into_iter().chain(later).min() {
            state.schedule(key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::*;

    fn key(name: &str) -> Key {
        (Kind::AgentStack, name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_changes_often_is_looked_at_once() {
        let queue = Queue::default();
        for _ in 0..5 {
            queue.add(key("a"), Duration::from_secs(1));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(queue.next().await, key("a"));
        queue.done(key("a"), None);
        queue.add(key("b"), Duration::ZERO);
        assert_eq!(queue.next().await, key("b"), "nothing of `a` is left");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_changes_while_it_is_looked_at_comes_again_afterwards() {
        let queue = Queue::default();
        queue.add(key("a"), Duration::ZERO);
        queue.next().await;
        queue.add(key("a"), Duration::ZERO);
        queue.add(key("b"), Duration::from_millis(1));
        assert_eq!(queue.next().await, key("b"), "`a` is busy");
        queue.done(key("a"), None);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_tried_again_later_each_time() {
        let queue = Queue::default();
        queue.add(key("a"), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..12 {
            let begun = Instant::now();
            queue.next().await;
            waits.push(begun.elapsed());
            queue.failed(key("a"));
        }
        assert!(waits.is_sorted() && waits[2] < waits[5], "{waits:?}");
        assert!(waits[11] >= MAX_BACKOFF && waits[11] < MAX_BACKOFF * 2, "{waits:?}");
    }
}
