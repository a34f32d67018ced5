//! The workers of a store, for the metrics of a server.

use std::fmt;
use std::sync::Arc;

use bailiwick_fleet::workers::{RegisteredWorker, WorkerAnswer, WorkerError, WorkerRegistry};

use crate::open::Store;

/// The workers of a store.
pub struct RegisteredWorkers {
    store: Arc<Store>,
    lease_millis: u64,
}

impl RegisteredWorkers {
    /// A worker that is silent for `lease_millis` is absent.
    pub fn new(store: Arc<Store>, lease_millis: u64) -> Self {
        Self { store, lease_millis }
    }
}

impl fmt::Debug for RegisteredWorkers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegisteredWorkers").finish_non_exhaustive()
    }
}

impl WorkerRegistry for RegisteredWorkers {
    fn registered(&self) -> WorkerAnswer<'_, Vec<RegisteredWorker>> {
        Box::pin(async move {
            let workers = self.store.registered_workers(self.lease_millis).await;
            workers.map_err(|error| WorkerError::Unavailable(error.to_string()))
        })
    }
}
