//! The resources of the control plane in SQL, with the behaviour of the in-memory model of `control`.
//!
//! Writers of this process wait for each other in order; writers of other processes wait for the lock of the
//! database. One version number counts all changes. There is only one writer at a time, so versions become
//! visible in order.

mod audit;
mod blobs;
mod changes;
mod intake;
mod key;
mod listing;
mod reindex;
mod row;
mod secrets;
mod statements;
mod statuses;
mod terms;
mod tokens;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, Page, Received,
    Selection, TokenRecord, Write,
};
use bailiwick_resources::{AnyObject, Kind, Moment};
use sqlx::AnyPool;
use tokio::sync::{Mutex, watch};

use crate::location::Location;
use crate::open::{BoxFuture, Store};

use intake::Intake;

/// The state of the resource store, shared with the tasks that write for many callers.
#[derive(Debug)]
pub(crate) struct Fleet {
    location: Location,
    pool: AnyPool,
    /// The only connection that writes, so that its page cache stays valid.
    writer: AnyPool,
    /// Held by the writer.
    write_lock: Mutex<()>,
    /// The newest known version.
    newest: watch::Sender<u64>,
    /// Held by the task that polls for changes of other processes.
    poll_lock: Mutex<()>,
    intake: Intake,
}

impl Fleet {
    pub(crate) fn new(location: Location, pool: AnyPool, writer: AnyPool) -> Arc<Self> {
        Arc::new(Self {
            location,
            pool,
            writer,
            write_lock: Mutex::default(),
            newest: watch::Sender::new(0),
            poll_lock: Mutex::default(),
            intake: Intake::default(),
        })
    }

    pub(crate) async fn close(&self) {
        self.writer.close().await;
        self.pool.close().await;
    }

    fn database_error(&self, error: &sqlx::Error) -> FleetError {
        self.unavailable(crate::open::database_message(error))
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> FleetError {
        FleetError::Unavailable(format!("{}: {why}", self.location))
    }

    fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
    ) -> BoxFuture<'_, Result<Applied, FleetError>> {
        Box::pin(async move {
            let mut transaction = self.begin_write().await?;
            match transaction.write_all(writes, now).await {
                Ok(objects) => Ok(Applied { objects, version: transaction.commit().await? }),
                Err(error) => {
                    transaction.rollback().await;
                    Err(error)
                }
            }
        })
    }
}

impl FleetStore for Store {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.fleet.get(kind, namespace, name).await
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        self.fleet.list(selection).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.fleet.commit(writes, now).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.fleet.changes(after, limit).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.fleet.forget_changes(keep).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        self.fleet.wait_for_change(after, millis).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.fleet.receive(delivery).await
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.fleet.blob(digest).await
    }

    async fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, FleetError> {
        self.fleet.blobs(digests).await
    }

    async fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        self.fleet.secret_value(namespace, name, key).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.fleet.tokens().await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.fleet.token(digest).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.fleet.forget_audit(before, max).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.fleet.audit(after, limit).await
    }
}
