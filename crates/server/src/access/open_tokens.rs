//! The tokens of open streams. A stream ends as soon as its token is revoked or expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_fleet::ports::FleetStore;
use bailiwick_resources::Moment;
use tokio::sync::watch;

use super::token::still_valid;
use crate::shutdown::Shutdown;

/// The tokens of open streams by their digests.
#[derive(Debug, Default)]
pub(crate) struct OpenTokens(Mutex<HashMap<String, watch::Sender<bool>>>);

/// The token of one stream.
#[derive(Debug, Clone)]
pub(crate) struct OpenToken(watch::Receiver<bool>);

impl OpenToken {
    pub(crate) fn has_ended(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the token is no longer valid.
    pub(crate) async fn ended(&mut self) {
        if self.0.wait_for(|ended| *ended).await.is_err() {
            // The sender is only dropped without a receiver.
            std::future::pending().await
        }
    }
}

impl OpenTokens {
    fn all(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self, digest: &str) -> OpenToken {
        let mut all = self.all();
        let sender = all.entry(digest.to_owned()).or_insert_with(|| watch::channel(false).0);
        OpenToken(sender.subscribe())
    }

    /// Ends the streams of a token.
    pub(crate) fn end(&self, digest: &str) {
        if let Some(sender) = self.all().remove(digest) {
            sender.send_replace(true);
        }
    }

    /// The digests with streams.
    fn digests(&self) -> Vec<String> {
        let mut all = self.all();
        all.retain(|_, sender| sender.receiver_count() > 0);
        all.keys().cloned().collect()
    }
}

/// Checks the tokens of open streams until shutdown: other processes revoke tokens as well.
pub(crate) async fn follow_tokens<S: FleetStore>(
    store: Arc<S>,
    tokens: Arc<OpenTokens>,
    interval: Duration,
    now: fn() -> Moment,
    mut shutdown: Shutdown,
) {
    let work = async {
        loop {
            tokio::time::sleep(interval).await;
            for digest in tokens.digests() {
                // If the store is unavailable, the heartbeat of the stream ends it.
                if matches!(still_valid(store.as_ref(), &digest, now()).await, Ok(false)) {
                    tokens.end(&digest);
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = shutdown.requested() => {}
    }
}
