//! A database in a temporary directory.

use std::path::{Path, PathBuf};

use bailiwick_store::{Location, Store};
use sqlx::{AnyConnection, Connection as _, Row as _};
use tempfile::TempDir;

pub(crate) use crate::rows::{attempt, block_on, id, run};

/// A temporary directory with the path of a database that does not exist yet.
pub(crate) struct TestDatabase {
    directory: TempDir,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("bailiwick-store-").tempdir().unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("ledger.db")
    }

    /// What another process needs to open the database: see [`location`].
    pub(crate) fn address(&self) -> String {
        self.file().display().to_string()
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(location(&self.address())).await.unwrap()
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.path("ledger.db.key")
    }

    /// The number of transactions in the write-ahead log.
    pub(crate) async fn transactions(&self) -> usize {
        let log = std::fs::read(self.path("ledger.db-wal")).unwrap();
        let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
        let salts = &log[16..24];
        let frame = 24 + number(8) as usize;
        let frames = (32..log.len().saturating_sub(frame - 1)).step_by(frame);
        frames.filter(|at| log[at + 8..at + 16] == *salts && number(at + 4) != 0).count()
    }

    pub(crate) async fn check_sound(&self) {
        let mut connection = self.connect().await;
        let sound = sqlx::query("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
        assert_eq!(sound.get::<String, _>(0), "ok");
        let wal = sqlx::query("PRAGMA journal_mode").fetch_one(&mut connection).await.unwrap();
        assert_eq!(wal.get::<String, _>(0), "wal");
    }

    /// A separate connection, to read what the store really wrote.
    pub(crate) async fn connect(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        AnyConnection::connect(&format!("sqlite://{}", self.file().display())).await.unwrap()
    }
}

/// The location of a database with this address.
pub(crate) fn location(address: &str) -> Location {
    Location::file(Path::new(address))
}
