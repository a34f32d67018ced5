//! The repositories that accept webhooks, while they are read for many deliveries at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bailiwick_resources::Repository;

/// A repository that accepts webhooks, and the secret of their signatures.
pub(crate) type WebhookTarget = (Repository, Vec<u8>);

/// Repositories that are being read. Concurrent requests for a repository share one read that started after all of
/// them, so that none gets an outdated result. Results are not cached beyond that.
#[derive(Default)]
pub(crate) struct WebhookTargets(Mutex<BTreeMap<String, Arc<LastRead>>>);

/// The last result, and the start of its read.
type LastRead = tokio::sync::Mutex<Option<(Instant, Arc<WebhookTarget>)>>;

/// A request that waits for a read.
pub(crate) struct SharedRead<'a> {
    webhook_targets: &'a WebhookTargets,
    name: &'a str,
    pub(crate) last: Arc<LastRead>,
}

impl WebhookTargets {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LastRead>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn share<'a>(&'a self, name: &'a str) -> SharedRead<'a> {
        let last = Arc::clone(self.all().entry(name.to_owned()).or_default());
        SharedRead { webhook_targets: self, name, last }
    }
}

impl Drop for SharedRead<'_> {
    fn drop(&mut self) {
        let mut all = self.webhook_targets.all();
        // The last request: the other reference is in the map.
        if Arc::strong_count(&self.last) <= 2 {
            all.remove(self.name);
        }
    }
}
