//! The store as the fleet's port.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, Page, PersonRecord,
    Received, SavedFilter, Selection, TokenRecord, Write,
};
use bailiwick_resources::{AnyObject, Kind, Moment};

use crate::open::Store;

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

    async fn count_by(
        &self,
        kind: Kind,
        field: &str,
        without: &str,
    ) -> Result<BTreeMap<String, u64>, FleetError> {
        self.fleet.count_by(kind, field, without).await
    }

    async fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> Result<u64, FleetError> {
        self.fleet.count_both(kind, first, second).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.fleet.commit(writes, now, self.fence).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.fleet.changes(after, limit).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.fleet.forget_changes(keep, self.fence).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        self.fleet.wait_for_change(after, millis).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.fleet.receive(delivery).await
    }

    async fn check_writable(&self) -> Result<(), FleetError> {
        self.fleet.check_writable(self.fence).await
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

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        self.fleet.people().await
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        self.fleet.saved_filters(owner).await
    }

    async fn forget_sessions(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.fleet.forget_sessions(before, most, self.fence).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.fleet.forget_audit(before, max, self.fence).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.fleet.audit(after, limit).await
    }
}

impl Store {
    /// Waits for the end of a burst of webhooks, at most this long, so that their senders are answered first.
    pub async fn wait_for_quiet_intake(&self, timeout: Duration) {
        self.fleet.wait_for_quiet_intake(timeout).await;
    }
}
