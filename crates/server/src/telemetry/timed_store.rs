//! A store that measures the latency of every operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, Page, PersonRecord,
    Received, SavedFilter, Selection, TokenRecord, Write,
};
use bailiwick_resources::{AnyObject, Kind, Moment};

use super::metrics::Metrics;

pub(crate) struct TimedStore<S> {
    store: Arc<S>,
    metrics: Arc<Metrics>,
}

impl<S: FleetStore> TimedStore<S> {
    pub(crate) fn new(store: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }

    async fn timed<T>(&self, operation: &'static str, work: impl Future<Output = T> + Send) -> T {
        let started = Instant::now();
        let result = work.await;
        self.metrics.observe_store(operation, started.elapsed());
        result
    }
}

impl<S: FleetStore> FleetStore for TimedStore<S> {
    async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.timed("get", self.store.get(kind, namespace, name)).await
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        self.timed("list", self.store.list(selection)).await
    }

    async fn count_by(
        &self,
        kind: Kind,
        field: &str,
        without: &str,
    ) -> Result<BTreeMap<String, u64>, FleetError> {
        self.timed("count", self.store.count_by(kind, field, without)).await
    }

    async fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> Result<u64, FleetError> {
        self.timed("count", self.store.count_both(kind, first, second)).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.timed("commit", self.store.commit(writes, now)).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.timed("changes", self.store.changes(after, limit)).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.timed("forget", self.store.forget_changes(keep)).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        self.store.wait_for_change(after, millis).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.timed("receive", self.store.receive(delivery)).await
    }

    async fn check_writable(&self) -> Result<(), FleetError> {
        self.timed("check_writable", self.store.check_writable()).await
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.timed("blob", self.store.blob(digest)).await
    }

    async fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, FleetError> {
        self.timed("blobs", self.store.blobs(digests)).await
    }

    async fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        self.timed("secret_value", self.store.secret_value(namespace, name, key)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.timed("tokens", self.store.tokens()).await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.timed("token", self.store.token(digest)).await
    }

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        self.timed("people", self.store.people()).await
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        self.timed("saved_filters", self.store.saved_filters(owner)).await
    }

    async fn forget_sessions(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.timed("forget", self.store.forget_sessions(before, most)).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.timed("forget", self.store.forget_audit(before, max)).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.timed("audit", self.store.audit(after, limit)).await
    }
}
