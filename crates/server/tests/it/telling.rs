//! The plain model of a store, which tells at once that something changed, as a real one does; and
//! which can be told to forget, or to fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, MemoryFleet, Page,
    Received, Selection, TokenRecord, Write,
};
use bailiwick_resources::{AnyObject, Kind, Moment};
use tokio::sync::watch;

#[derive(Default)]
pub(crate) struct Telling {
    store: MemoryFleet,
    version: watch::Sender<u64>,
    /// Changes before this one are forgotten.
    pub(crate) oldest: AtomicU64,
    /// How many milliseconds lie between reading an object and having it.
    pub(crate) pause: AtomicU64,
    /// The next delivery is kept by somebody else who was quicker.
    pub(crate) quicker: AtomicBool,
    /// After the next commit nothing is kept any more.
    pub(crate) last: AtomicBool,
    /// Nothing is answered.
    pub(crate) down: AtomicBool,
}

impl Telling {
    fn up(&self) -> Result<(), FleetError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(FleetError::Unavailable("/var/secret/path.db: disk full".to_owned()));
        }
        Ok(())
    }
}

impl FleetStore for Telling {
    async fn get(
        &self,
        kind: Kind,
        space: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.up()?;
        let found = self.store.get(kind, space, name).await;
        let pause = self.pause.load(Ordering::Relaxed);
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        found
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        self.up()?;
        self.store.list(selection).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.up()?;
        let applied = self.store.commit(writes, now).await?;
        self.down.fetch_or(self.last.load(Ordering::Relaxed), Ordering::Relaxed);
        self.version.send_replace(applied.version);
        Ok(applied)
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.up()?;
        let oldest = self.oldest.load(Ordering::Relaxed);
        if after + 1 < oldest {
            return Err(FleetError::Gone { oldest });
        }
        self.store.changes(after, limit).await
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.up()?;
        self.store.forget_changes(keep).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        let mut seen = self.version.subscribe();
        let come = seen.wait_for(|version| *version > after);
        let _ = tokio::time::timeout(Duration::from_millis(millis), come).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.up()?;
        let (namespace, name) = ("default".to_owned(), delivery.name.clone());
        let received = self.store.receive(delivery).await;
        if self.quicker.swap(false, Ordering::Relaxed) {
            let kind = Kind::WebhookDelivery;
            return Err(FleetError::AlreadyExists { kind, namespace, name });
        }
        self.version.send_modify(|version| *version += 1);
        received
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.up()?;
        self.store.blob(digest).await
    }

    async fn secret_value(
        &self,
        space: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        self.up()?;
        self.store.secret_value(space, name, key).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.up()?;
        self.store.tokens().await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.up()?;
        self.store.token(digest).await
    }

    async fn forget_audit(&self, before: Moment, most: usize) -> Result<u64, FleetError> {
        self.up()?;
        self.store.forget_audit(before, most).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.up()?;
        self.store.audit(after, limit).await
    }
}
