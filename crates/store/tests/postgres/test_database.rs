//! An empty database of a server that all tests share, and a directory for the files that belong to it. How tests reach
//! it is in `connection`: directly, or through a pooler.

use std::path::{Path, PathBuf};

use bailiwick_store::{Location, Store};
use bailiwick_testkit::postgres::PostgresServer;
use sqlx::{AnyConnection, Connection as _};
use tempfile::TempDir;

use crate::connection;
pub(crate) use crate::rows::{attempt, block_on, id, run};

pub(crate) struct TestDatabase {
    pub(crate) directory: TempDir,
    /// The URL on the server itself.
    pub(crate) url: String,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        let database = Self::on(PostgresServer::shared());
        connection::prepare(&database);
        database
    }

    pub(crate) fn on(server: &PostgresServer) -> Self {
        let directory = tempfile::Builder::new().prefix("bailiwick-store-").tempdir().unwrap();
        Self { directory, url: server.create_database() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap()
    }

    /// What another process needs to open the database: see [`location`].
    pub(crate) fn address(&self) -> String {
        format!("{}\n{}", self.directory.path().display(), connection::url(self))
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(location(&self.address())).await.unwrap()
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        location(&self.address()).companion(".key")
    }

    /// The number of transactions that wrote the existing deliveries.
    pub(crate) async fn transactions(&self) -> usize {
        let written =
            "SELECT count(DISTINCT xmin::text) FROM resources WHERE kind = 'WebhookDelivery'";
        PostgresServer::shared().sql(self.name(), written).parse().unwrap()
    }

    pub(crate) async fn check_sound(&self) {
        let count_waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = \
                       (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(PostgresServer::shared().sql(self.name(), count_waiting), "0");
    }

    /// A separate connection to the server itself, to read what the store really wrote.
    pub(crate) async fn connect(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        AnyConnection::connect(&self.url).await.unwrap()
    }
}

/// The location of a database with this address.
pub(crate) fn location(address: &str) -> Location {
    let (directory, url) = address.split_once('\n').unwrap();
    Location::parse(url, Path::new(directory)).unwrap()
}
