//! A ledger in a throwaway file, and rows for it.

use std::future::Future;
use std::path::PathBuf;

use bailiwick_lifecycle::ports::NewRun;
use bailiwick_model::AgentId;
use bailiwick_store::{Location, Store};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

/// A directory of its own, with the path of a database that is not there yet.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("bailiwick-store-").tempdir().unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("ledger.db")
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(Location::file(self.database())).await.unwrap()
    }

    /// A connection of our own, beside the store's, to look at what it really wrote.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let url = format!("sqlite://{}", self.database().display());
        SqliteConnection::connect(&url).await.unwrap()
    }
}

pub(crate) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

/// A run with nothing but what it must have.
pub(crate) fn run(name: &str) -> NewRun {
    NewRun {
        id: id(name),
        branch: format!("agent/{name}"),
        parent: None,
        spec_sha: "0".repeat(64),
        worktree: None,
        dna: None,
        creator: None,
        fork_parent: None,
        half_spawned: false,
        base: None,
        named: None,
    }
}

/// Runs `work` to its end on a runtime of this thread alone.
pub(crate) fn alone<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
