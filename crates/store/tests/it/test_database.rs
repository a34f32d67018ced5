//! A database in a temporary directory, and rows for it.

use std::future::Future;
use std::path::PathBuf;

use bailiwick_lifecycle::ports::NewRun;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::Phase;
use bailiwick_store::{Location, Store};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

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

    pub(crate) async fn open(&self) -> Store {
        Store::open(Location::file(self.file())).await.unwrap()
    }

    /// A separate connection, to read what the store really wrote.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let url = format!("sqlite://{}", self.file().display());
        SqliteConnection::connect(&url).await.unwrap()
    }
}

pub(crate) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

/// A run with the required fields only.
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

/// Runs a future on a current-thread runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// An attempt of this run that has begun.
pub(crate) fn attempt(run: &str) -> Attempt {
    Attempt {
        run: id(run),
        number: 0,
        cli: "script".to_owned(),
        version: "1".to_owned(),
        model: String::new(),
        login: "api-key".to_owned(),
        sandbox: "full".to_owned(),
        session: None,
        phase: Phase::Preparing,
        ending: None,
        detail: String::new(),
        exhausted: None,
        started_at: 5,
        ended_at: None,
        used: Used::default(),
        budget: Allowance { tokens: Some(9), ..Allowance::default() },
    }
}
