//! The one reader of the log of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::{FleetError, FleetStore, Selection};
use bailiwick_resources::Kind;
use tokio::sync::broadcast;

use super::frame::Frame;
use crate::stop::Stop;
use crate::telemetry::{Metrics, Tally};

/// How many changes are read at once.
const AT_ONCE: usize = 512;
/// How long the store may let us wait; then we look for ourselves.
const LOOK_ANYWAY: u64 = 5_000;
/// A store that wakes us for nothing is not asked again at once.
const REST: Duration = Duration::from_millis(5);
/// After a store did not work.
const RECOVER: Duration = Duration::from_millis(500);

/// What watchers are told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// A change.
    Change(Arc<Frame>),
    /// Some were missed: look into the store.
    Missed,
}

/// Where changes come out. Whoever is slow misses some and is told so; nobody waits for them.
#[derive(Debug)]
pub(crate) struct Hub {
    frames: broadcast::Sender<Told>,
    published: AtomicU64,
}

impl Hub {
    pub(crate) fn new(behind: usize) -> Self {
        let (frames, _) = broadcast::channel(behind.max(1));
        Self { frames, published: AtomicU64::new(0) }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Told> {
        self.frames.subscribe()
    }

    /// The version of the last change that was sent.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self, version: u64) {
        self.published.store(version, Ordering::Release);
    }

    fn publish(&self, frame: Frame) {
        let version = frame.change.version;
        // Without watchers nobody takes it, and that is no error.
        let _ = self.frames.send(Told::Change(Arc::new(frame)));
        self.published.store(version, Ordering::Release);
    }
}

impl Hub {
    fn missed(&self, version: u64) {
        self.begin(version);
        let _ = self.frames.send(Told::Missed);
    }
}

/// The version of the whole store.
pub(crate) async fn store_version<S: FleetStore>(store: &S) -> Result<u64, FleetError> {
    let selection = Selection { limit: 1, ..Selection::of(Kind::RunnerPool) };
    Ok(store.list(&selection).await?.version)
}

/// Follows the log until the server stops.
pub(crate) async fn follow<S: FleetStore>(
    store: Arc<S>,
    hub: Arc<Hub>,
    tally: Arc<Tally>,
    metrics: Arc<Metrics>,
    mut stop: Stop,
) {
    let work = async {
        let mut waited = false;
        loop {
            match store.changes(hub.published(), AT_ONCE).await {
                Ok(changes) if changes.is_empty() => {
                    if waited {
                        tokio::time::sleep(REST).await;
                    }
                    store.wait_for_change(hub.published(), LOOK_ANYWAY).await;
                    waited = true;
                }
                Ok(changes) => {
                    waited = false;
                    for change in changes {
                        tally.see(&change);
                        metrics.change();
                        hub.publish(Frame::new(change));
                    }
                }
                Err(FleetError::Gone { oldest }) => {
                    tracing::warn!(oldest, "changes were missed; going on from the oldest");
                    hub.missed(oldest.saturating_sub(1));
                }
                Err(error) => {
                    tracing::error!(%error, "the log of changes cannot be read");
                    tokio::time::sleep(RECOVER).await;
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop.said() => {}
    }
}
