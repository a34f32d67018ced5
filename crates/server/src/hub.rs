//! The reader of the change log, which distributes the changes to all watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::{FleetError, FleetStore, Selection};
use bailiwick_resources::Kind;
use tokio::sync::broadcast;

use crate::frame::Frame;
use crate::shutdown::Shutdown;
use crate::telemetry::{Metrics, RunCounts};

const BATCH_SIZE: usize = 512;
/// The maximum wait for a notification of the store.
const POLL_MILLIS: u64 = 5_000;
/// The delay after a wake-up without a change.
const SPURIOUS_WAKE_DELAY: Duration = Duration::from_millis(5);
/// The delay after an error of the store.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// A message to watchers.
#[derive(Debug, Clone)]
pub(crate) enum HubMessage {
    Change(Arc<Frame>),
    /// Changes were skipped: read them from the store.
    Missed,
}

/// Distributes changes. A slow watcher loses changes and is notified; the others do not wait for it.
#[derive(Debug)]
pub(crate) struct Hub {
    frames: broadcast::Sender<HubMessage>,
    published: AtomicU64,
}

impl Hub {
    pub(crate) fn new(max_lag: usize) -> Self {
        let (frames, _) = broadcast::channel(max_lag.max(1));
        Self { frames, published: AtomicU64::new(0) }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<HubMessage> {
        self.frames.subscribe()
    }

    /// The version of the last change that was sent.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn start_at(&self, version: u64) {
        self.published.store(version, Ordering::Release);
    }

    fn publish(&self, frame: Frame) {
        let version = frame.change.version;
        // It is no error if there are no watchers.
        let _ = self.frames.send(HubMessage::Change(Arc::new(frame)));
        self.published.store(version, Ordering::Release);
    }

    fn missed(&self, version: u64) {
        self.start_at(version);
        let _ = self.frames.send(HubMessage::Missed);
    }
}

/// The version of the whole store.
pub(crate) async fn store_version<S: FleetStore>(store: &S) -> Result<u64, FleetError> {
    let selection = Selection { limit: 1, ..Selection::of(Kind::RunnerPool) };
    Ok(store.list(&selection).await?.version)
}

/// Follows the change log until shutdown.
pub(crate) async fn follow_change_log<S: FleetStore>(
    store: Arc<S>,
    hub: Arc<Hub>,
    run_counts: Arc<RunCounts>,
    metrics: Arc<Metrics>,
    mut shutdown: Shutdown,
) {
    let work = async {
        let mut waited = false;
        loop {
            match store.changes(hub.published(), BATCH_SIZE).await {
                Ok(changes) if changes.is_empty() => {
                    if waited {
                        tokio::time::sleep(SPURIOUS_WAKE_DELAY).await;
                    }
                    store.wait_for_change(hub.published(), POLL_MILLIS).await;
                    waited = true;
                }
                Ok(changes) => {
                    waited = false;
                    for change in changes {
                        run_counts.observe(&change);
                        metrics.change();
                        hub.publish(Frame::new(change));
                    }
                }
                Err(FleetError::Gone { oldest }) => {
                    tracing::warn!(oldest, "changes were skipped; continuing from the oldest");
                    hub.missed(oldest.saturating_sub(1));
                }
                Err(error) => {
                    tracing::error!(%error, "the change log cannot be read");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = shutdown.requested() => {}
    }
}
