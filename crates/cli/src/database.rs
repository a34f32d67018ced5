//! Events and attempts of a run in the database, for threads that wait.

use std::sync::Arc;

use bailiwick_control::ports::{Events, StoreError};
use bailiwick_model::{AgentId, Attempt, Event};
use bailiwick_store::{Location, Store};
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::wire;

/// The database, held open as long as a run is.
pub struct Kept {
    runtime: Runtime,
    store: Store,
}

impl Kept {
    /// Opens it.
    pub fn open(location: &Location) -> Result<Arc<Self>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Failure::general(format!("no runtime: {error}")))?;
        let store = runtime.block_on(Store::open(location.clone()))?;
        Ok(Arc::new(Self { runtime, store }))
    }

    /// Does something with it.
    pub fn with<T>(
        &self,
        work: impl AsyncFnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        wire::wait(&self.runtime, work(&self.store))
    }

    /// Writes down how an attempt stands.
    pub fn update(&self, attempt: &Attempt) -> Result<(), StoreError> {
        self.with(async |store| store.update_attempt(attempt).await)
    }
}

/// The events of one run.
pub struct KeptEvents {
    /// The database.
    pub kept: Arc<Kept>,
    /// The run.
    pub run: AgentId,
}

impl Events for KeptEvents {
    fn keep(&mut self, events: &mut [Event]) -> Result<(), StoreError> {
        self.kept.with(async |store| store.keep(&self.run, events).await)
    }
}
