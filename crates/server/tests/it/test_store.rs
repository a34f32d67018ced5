//! The in-memory store with immediate change notifications, which can also delete changes or fail on demand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::{
    Applied, AuditEntry, Change, FleetError, FleetStore, IncomingDelivery, MemoryFleet, Page,
    PersonRecord, Received, SavedFilter, Selection, TokenRecord, Write,
};
use bailiwick_resources::{AnyObject, Kind, Moment};
use tokio::sync::watch;

#[derive(Default)]
pub(crate) struct TestStore {
    store: MemoryFleet,
    version: watch::Sender<u64>,
    /// Changes before this one are deleted.
    pub(crate) oldest: AtomicU64,
    /// The delay of `get` in milliseconds.
    pub(crate) pause: AtomicU64,
    /// The next delivery is stored by a concurrent request first.
    pub(crate) stored_concurrently: AtomicBool,
    /// The store fails after the next commit.
    pub(crate) fail_after_commit: AtomicBool,
    /// Every operation fails.
    pub(crate) down: AtomicBool,
    /// Writes fail, reads do not.
    pub(crate) unwritable: AtomicBool,
    /// Writes wait for a lock that another process has.
    pub(crate) locked: AtomicBool,
}

impl TestStore {
    fn check_available(&self) -> Result<(), FleetError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(FleetError::Unavailable("/var/secret/path.db: disk full".to_owned()));
        }
        Ok(())
    }
}

impl FleetStore for TestStore {
    async fn get(
        &self,
        kind: Kind,
        space: &str,
        name: &str,
    ) -> Result<Option<AnyObject>, FleetError> {
        self.check_available()?;
        let found = self.store.get(kind, space, name).await;
        let pause = self.pause.load(Ordering::Relaxed);
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        found
    }

    async fn list(&self, selection: &Selection) -> Result<Page, FleetError> {
        self.check_available()?;
        self.store.list(selection).await
    }

    async fn commit(&self, writes: Vec<Write>, now: Moment) -> Result<Applied, FleetError> {
        self.check_available()?;
        let applied = self.store.commit(writes, now).await?;
        self.down.fetch_or(self.fail_after_commit.load(Ordering::Relaxed), Ordering::Relaxed);
        self.version.send_replace(applied.version);
        Ok(applied)
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, FleetError> {
        self.check_available()?;
        let oldest = self.oldest.load(Ordering::Relaxed);
        if after + 1 < oldest {
            return Err(FleetError::Gone { oldest });
        }
        self.store.changes(after, limit).await
    }

    async fn check_writable(&self) -> Result<(), FleetError> {
        while self.locked.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match self.unwritable.load(Ordering::Relaxed) {
            true => Err(FleetError::Unavailable("/var/secret/path.db: disk full".to_owned())),
            false => Ok(()),
        }
    }

    async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        self.check_available()?;
        self.store.forget_changes(keep).await
    }

    async fn wait_for_change(&self, after: u64, millis: u64) {
        let mut versions = self.version.subscribe();
        let changed = versions.wait_for(|version| *version > after);
        let _ = tokio::time::timeout(Duration::from_millis(millis), changed).await;
    }

    async fn receive(&self, delivery: IncomingDelivery) -> Result<Received, FleetError> {
        self.check_available()?;
        let (namespace, name) = ("default".to_owned(), delivery.name.clone());
        let received = self.store.receive(delivery).await;
        if self.stored_concurrently.swap(false, Ordering::Relaxed) {
            let kind = Kind::WebhookDelivery;
            return Err(FleetError::AlreadyExists { kind, namespace, name });
        }
        self.version.send_modify(|version| *version += 1);
        received
    }

    async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        self.check_available()?;
        self.store.blob(digest).await
    }

    async fn secret_value(
        &self,
        space: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        self.check_available()?;
        self.store.secret_value(space, name, key).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        self.check_available()?;
        self.store.tokens().await
    }

    async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        self.check_available()?;
        self.store.token(digest).await
    }

    async fn people(&self) -> Result<Vec<PersonRecord>, FleetError> {
        self.check_available()?;
        self.store.people().await
    }

    async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        self.check_available()?;
        self.store.saved_filters(owner).await
    }

    async fn forget_sessions(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.check_available()?;
        self.store.forget_sessions(before, max).await
    }

    async fn forget_audit(&self, before: Moment, max: usize) -> Result<u64, FleetError> {
        self.check_available()?;
        self.store.forget_audit(before, max).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        self.check_available()?;
        self.store.audit(after, limit).await
    }
}
