//! The resources of the control plane on SQL, held to the plain model of `control`.
//!
//! Writers of this process wait for each other here, in the order in which they came; those of other
//! processes wait for the database's own lock. One version counts every change of anything; since
//! whoever writes is alone from the beginning, versions become visible in their order.

mod changes;
mod draft;
mod intake;
mod key;
mod listing;
mod row;
mod secrets;
mod small;
mod statuses;
mod terms;
mod upkeep;
mod values;

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
use crate::open::{Pending, Store};

use intake::Intake;

/// What the store needs for resources, shared with the tasks that write for many callers.
#[derive(Debug)]
pub(crate) struct Fleet {
    location: Location,
    pool: AnyPool,
    /// The one connection that writes: it remembers what it has written.
    writer: AnyPool,
    /// Held by whoever writes.
    turn: Mutex<()>,
    /// The newest version that is known here.
    newest: watch::Sender<u64>,
    /// Held by the one that looks for changes of other processes.
    lookout: Mutex<()>,
    intake: Intake,
}

impl Fleet {
    pub(crate) fn new(location: Location, pool: AnyPool, writer: AnyPool) -> Arc<Self> {
        Arc::new(Self {
            location,
            pool,
            writer,
            turn: Mutex::default(),
            newest: watch::Sender::new(0),
            lookout: Mutex::default(),
            intake: Intake::default(),
        })
    }

    pub(crate) async fn close(&self) {
        self.writer.close().await;
        self.pool.close().await;
    }

    fn failed(&self, error: &sqlx::Error) -> FleetError {
        self.broken(crate::open::reason(error))
    }

    fn broken(&self, why: impl std::fmt::Display) -> FleetError {
        FleetError::Unavailable(format!("{}: {why}", self.location))
    }

    fn commit(&self, writes: Vec<Write>, now: Moment) -> Pending<'_, Result<Applied, FleetError>> {
        Box::pin(async move {
            let mut draft = self.draft().await?;
            match draft.write_all(writes, now).await {
                Ok(objects) => Ok(Applied { objects, version: draft.keep().await? }),
                Err(error) => {
                    draft.drop_all().await;
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

    async fn forget_audit(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.fleet.forget_audit(before, most).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.fleet.audit(after, limit).await
    }
}
