//! An empty database of a server that all tests share, reached through a pooler.

use std::path::{Path, PathBuf};

use bailiwick_store::{Location, Store};
use bailiwick_testkit::pgbouncer::PgBouncer;
use bailiwick_testkit::postgres::PostgresServer;
use sqlx::{AnyConnection, Connection as _};
use tempfile::TempDir;

pub(crate) use crate::rows::{attempt, block_on, id, run};

pub(crate) struct TestDatabase {
    directory: TempDir,
    direct_url: String,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        let database = Self::without_schema();
        // Tests without and with a runtime call this.
        let migrating = || block_on(database.migrate());
        std::thread::scope(|scope| scope.spawn(migrating).join()).unwrap();
        database
    }

    pub(crate) fn without_schema() -> Self {
        let directory = tempfile::Builder::new().prefix("bailiwick-store-").tempdir().unwrap();
        Self { directory, direct_url: PostgresServer::shared().create_database() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn name(&self) -> &str {
        self.direct_url.rsplit('/').next().unwrap()
    }

    pub(crate) fn pooler_url(&self) -> String {
        PgBouncer::shared().url(self.name())
    }

    /// What another process needs to open it: see [`location`].
    pub(crate) fn address(&self) -> String {
        format!("{}\n{}?pooler=transaction", self.directory.path().display(), self.pooler_url())
    }

    pub(crate) fn at(&self, url: &str) -> Location {
        Location::parse(url, self.directory.path()).unwrap()
    }

    pub(crate) async fn migrate(&self) {
        Store::open(self.at(&self.direct_url)).await.unwrap().close().await;
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(location(&self.address())).await.unwrap()
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        location(&self.address()).companion(".key")
    }

    /// The number of transactions that wrote the deliveries that are there.
    pub(crate) async fn transactions(&self) -> usize {
        let written =
            "SELECT count(DISTINCT xmin::text) FROM resources WHERE kind = 'WebhookDelivery'";
        PostgresServer::shared().sql(self.name(), written).parse().unwrap()
    }

    pub(crate) async fn check_sound(&self) {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = \
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(PostgresServer::shared().sql(self.name(), waiting), "0");
    }

    /// A separate connection to the server itself, to read what the store really wrote.
    pub(crate) async fn connect(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        AnyConnection::connect(&self.direct_url).await.unwrap()
    }
}

/// The location of a database with this address.
pub(crate) fn location(address: &str) -> Location {
    let (directory, url) = address.split_once('\n').unwrap();
    Location::parse(url, Path::new(directory)).unwrap()
}
