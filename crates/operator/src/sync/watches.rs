//! Fills the cache from both sides, and has the queue look at what changed.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_client::ClientError;
use bailiwick_fleet::ports::ChangeKind;
use bailiwick_kubernetes::sync::Direction;
use bailiwick_model::backoff::Backoff;
use bailiwick_resources::Kind;
use futures_util::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;

use super::cache::Key;
use super::cluster;
use super::control_plane::is_token_refusal;
use super::queue::Queue;
use super::reconciler::{Reconciler, now};
use super::term::OperatorError;
use super::{DECLARATION_DEBOUNCE, RECORD_DEBOUNCE};

/// How long a stream of the control plane that ended waits for its next list.
const RELISTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
const IDLE_DELAY: Duration = Duration::from_millis(20);

/// How long each list waits after the one before. A stream that lasted a while begins again.
#[derive(Debug, Default)]
struct Relists(u32);

impl Relists {
    fn delay(&mut self, lasted: Duration) -> Duration {
        if lasted > RELISTS.max() {
            self.0 = 0;
        }
        let delay = RELISTS.delay(self.0);
        self.0 = self.0.saturating_add(1);
        delay
    }
}

/// What watches one kind on both sides.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) reconciler: Arc<Reconciler>,
    pub(super) queue: Arc<Queue>,
    pub(super) kind: Kind,
    pub(super) direction: Direction,
    /// Counts the first lists that are complete. Before all of them are, nothing is written.
    pub(super) listed: watch::Sender<usize>,
}

impl Watcher {
    fn add(&self, key: Key) {
        let delay = match self.direction {
            Direction::Declared => DECLARATION_DEBOUNCE,
            Direction::Recorded => RECORD_DEBOUNCE,
        };
        self.queue.add(key, delay);
    }

    /// Watches the cluster until it cannot. After `410 Gone` it lists again.
    pub(super) async fn watch_cluster(self) -> OperatorError {
        let api = self.reconciler.cluster.api(self.kind);
        // After an error it waits longer each time.
        let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut list = Vec::new();
        let mut is_first = true;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => list.push(cluster::read(object)),
                Ok(Event::InitDone) => {
                    let list = std::mem::take(&mut list);
                    let keys = self.reconciler.cache.replace_objects(self.kind, list);
                    keys.into_iter().for_each(|key| self.add(key));
                    self.is_listed(&mut is_first);
                }
                Ok(Event::Apply(object)) => {
                    let object = cluster::read(object);
                    self.add(self.reconciler.cache.set_object(self.kind, object));
                }
                Ok(Event::Delete(object)) => {
                    let key = (self.kind, object.metadata.name.unwrap_or_default());
                    self.reconciler.cache.remove_object(&key);
                    self.add(key);
                }
                Err(error) => {
                    tracing::warn!(kind = %self.kind, %error, "cannot watch the cluster");
                }
            }
        }
        OperatorError::WatchEnded(self.kind)
    }

    /// Follows the control plane until it refuses the token: a list, then every change after it. Where changes are not
    /// kept any more, it lists again.
    pub(super) async fn watch_control_plane(self) -> OperatorError {
        let mut is_first = true;
        let mut relists = Relists::default();
        loop {
            let begun = Instant::now();
            if let Err(error) = self.follow(&mut is_first).await {
                if is_token_refusal(&error) {
                    return OperatorError::TokenRefused;
                }
                tracing::warn!(kind = %self.kind, %error, "cannot follow the control plane");
            }
            tokio::time::sleep(relists.delay(begun.elapsed())).await;
        }
    }

    async fn follow(&self, is_first: &mut bool) -> Result<(), ClientError> {
        let control_plane = &self.reconciler.control_plane;
        let cache = &self.reconciler.cache;
        let kept = |object| cache.kept(object, now());
        let (list, version) = control_plane.list(self.kind, kept).await?;
        let keys = self.reconciler.cache.replace_records(self.kind, list);
        keys.into_iter().for_each(|key| self.add(key));
        self.is_listed(is_first);
        let mut changes = control_plane.client().watch(self.kind, version).await?;
        loop {
            let news = changes.next().await?;
            if news.is_empty() {
                // A stream without news does not keep others from running.
                tokio::time::sleep(IDLE_DELAY).await;
            }
            for change in news {
                let object = change.object;
                if object.kind != self.kind {
                    continue;
                }
                let key = match change.kind {
                    ChangeKind::Added | ChangeKind::Modified => cache.set_record(object, now()),
                    ChangeKind::Deleted => {
                        let name = &object.metadata.name;
                        Some(cache.remove_record(self.kind, name, change.version))
                    }
                };
                key.into_iter().for_each(|key| self.add(key));
            }
        }
    }

    fn is_listed(&self, is_first: &mut bool) {
        if std::mem::take(is_first) {
            self.listed.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Relists;

    #[test]
    fn lists_that_follow_each_other_wait_longer_each_time() {
        let mut relists = Relists::default();
        let mut delays =
            |lasted| -> Vec<u64> { (0..8).map(|_| relists.delay(lasted).as_secs()).collect() };
        assert_eq!(delays(Duration::from_secs(1)), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delays(Duration::from_secs(61)), [1; 8], "the stream worked before it ended");
    }
}
