//! Opens the database.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_lifecycle::ports::StoreError;
use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AnyConnection, Connection as _, Row};

use crate::connections::{ConnectionPool, LEASE_LOST, WRITERS, WriteConnection};
use crate::database_file::DatabaseFile;
use crate::fleet::{Fleet, Rebuild};
use crate::location::Location;
use crate::sql::{BoxFuture, DatabaseKind, database_message};

/// How long a write waits for other writers.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a caller waits for a connection to a server that does not answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(20);

/// How many pages the write-ahead log has before a checkpoint. Most writes change the same pages, so fewer
/// checkpoints write less.
const WAL_CHECKPOINT_PAGES: u32 = 8_192;

/// The page cache of the writing connection. The caches of the others are dropped after each write.
const WRITER_CACHE_KIB: u32 = 8_000;

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Use,
    /// To copy another database into it.
    CopyTarget,
}

pub struct Store {
    pub(crate) location: Location,
    database_kind: DatabaseKind,
    pub(crate) pool: ConnectionPool,
    pub(crate) fleet: Arc<Fleet>,
    /// The epoch of the lease without which this store does not write.
    pub(crate) fence: Option<i64>,
}

/// Creates the file if it does not exist, and denies other users access: it has prompts and answers of agents.
/// SQLite gives its other files the same mode.
fn create_private(file: &Path) -> io::Result<()> {
    // An existing file is never opened here: closing it would drop SQLite's locks of this process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.map(drop),
    }
    let mode = fs::metadata(file)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(file, Permissions::from_mode(mode & 0o700)) {
        // The file belongs to another user, who has to protect it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

impl Store {
    /// Opens the database; creates it and its directory if needed. An unfinished copy is refused.
    pub fn open(location: Location) -> BoxFuture<'static, Result<Self, StoreError>> {
        Box::pin(Self::open_database(location, Purpose::Use))
    }

    /// The same for the database that another one is copied into, which may be an unfinished copy.
    pub fn open_for_copy(location: Location) -> BoxFuture<'static, Result<Self, StoreError>> {
        Box::pin(Self::open_database(location, Purpose::CopyTarget))
    }

    /// Closes all connections; the last connection of all processes runs a checkpoint.
    pub async fn close(&self) {
        self.fleet.close().await;
    }

    async fn open_database(location: Location, purpose: Purpose) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let store = match location.sqlite_file() {
            Some(path) => {
                let path = path.to_owned();
                Self::open_file(location, &path, purpose).await?
            }
            None => {
                // A pool would try for long, and say only that it has.
                let url = location.url().unwrap_or_default();
                let reached = AnyConnection::connect(&url).await.map(drop);
                let store = Self::connect(location)?;
                reached.map_err(|error| store.error(&error))?;
                store.check_purpose(purpose).await?;
                store.migrate_server().await?;
                store
            }
        };
        // A copy has the index of its source.
        if purpose == Purpose::Use {
            store.check_index(Rebuild::OtherFields).await?;
        }
        Ok(store)
    }

    /// Makes the index complete again if an older program has written to the database since this version did.
    pub async fn complete_index(&self) -> Result<(), StoreError> {
        self.check_index(Rebuild::OlderTerms).await
    }

    async fn check_index(&self, rebuild: Rebuild) -> Result<(), StoreError> {
        let checked = self.fleet.check_index(rebuild).await;
        checked.map_err(|error| self.failure(format!("its index could not be updated: {error}")))
    }

    async fn check_purpose(&self, purpose: Purpose) -> Result<(), StoreError> {
        match purpose {
            Purpose::Use => self.refuse_unfinished_copy().await,
            Purpose::CopyTarget => Ok(()),
        }
    }

    async fn open_file(
        location: Location,
        path: &Path,
        purpose: Purpose,
    ) -> Result<Self, StoreError> {
        let fail = |why: String| StoreError::Database { database: location.to_string(), why };
        if let Some(directory) = path.parent() {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            created.map_err(|error| {
                fail(format!("its directory {} cannot be created: {error}", directory.display()))
            })?;
        }
        create_private(path).map_err(|error| fail(error.to_string()))?;
        let file = DatabaseFile::at(path).map_err(|error| fail(error.to_string()))?;
        let url = location.url().ok_or_else(|| fail("its path is not UTF-8".to_owned()))?;
        let lock = lock(&location).map_err(|error| fail(error.to_string()))?;
        let failed = |error: sqlx::Error| fail(database_message(&error));
        // A waiting caller may wait for writers that themselves wait this long.
        let pool = file_pool(4, "").acquire_timeout(2 * LOCK_TIMEOUT);
        let pool = ConnectionPool::to_file(pool.connect(&url).await.map_err(failed)?);
        let settings = format!("; PRAGMA cache_size = -{WRITER_CACHE_KIB}");
        let writer = file_pool(1, &settings).connect_lazy(&url).map_err(failed)?;
        let writer = ConnectionPool::to_file(writer);
        let database_kind = DatabaseKind::Sqlite;
        let fleet = Fleet::new(location.clone(), database_kind, Some(file), pool.clone(), writer);
        let store = Self { location, database_kind, pool, fleet, fence: None };
        store.check_purpose(purpose).await?;
        // Under the lock: sqlx's migrator is not safe against other processes on a new file, and the switch to WAL mode
        // does not wait for a lock.
        store.migrate_file().await?;
        drop(lock);
        Ok(store)
    }

    /// A server is connected to when it is first asked, so that one that is restarted is found again.
    fn connect(location: Location) -> Result<Self, StoreError> {
        let pool = |max| connect_to_server(&location, max);
        let pools = pool(location.max_readers()).and_then(|readers| Ok((readers, pool(WRITERS)?)));
        let (pool, writer) = pools.map_err(|error| StoreError::Database {
            database: location.to_string(),
            why: database_message(&error),
        })?;
        let database_kind = DatabaseKind::Postgres;
        let fleet = Fleet::new(location.clone(), database_kind, None, pool.clone(), writer);
        Ok(Self { location, database_kind, pool, fleet, fence: None })
    }

    pub(crate) async fn query_number(&self, query: &'static str) -> Result<i64, StoreError> {
        let row: AnyRow =
            sqlx::query(query).fetch_one(&self.pool).await.map_err(|error| self.error(&error))?;
        row.try_get(0).map_err(|error| self.error(&error))
    }

    pub(crate) async fn begin_write(&self) -> Result<WriteConnection, StoreError> {
        self.fleet.file_in_place().map_err(|error| self.failure(error.to_string()))?;
        let begun = WriteConnection::begin(&self.pool, self.database_kind.begin_write()).await;
        let mut transaction = begun.map_err(|error| self.error(&error))?;
        match transaction.is_fenced(self.fence).await {
            Ok(false) => Ok(transaction),
            Ok(true) => {
                transaction.rollback().await;
                Err(self.failure(LEASE_LOST.to_owned()))
            }
            Err(error) => Err(self.error(&error)),
        }
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> StoreError {
        self.failure(database_message(error))
    }

    /// The same store, whose writes need the lease with this epoch.
    pub(crate) fn with_fence(&self, fence: Option<i64>) -> Self {
        Self {
            location: self.location.clone(),
            database_kind: self.database_kind,
            pool: self.pool.clone(),
            fleet: Arc::clone(&self.fleet),
            fence,
        }
    }

    pub(crate) fn database_kind(&self) -> DatabaseKind {
        self.database_kind
    }

    pub(crate) fn failure(&self, why: String) -> StoreError {
        StoreError::Database { database: self.location.to_string(), why }
    }
}

/// At most this many connections to a server. A connection that was lost is replaced when it is needed.
pub(crate) fn connect_to_server(
    location: &Location,
    max: u32,
) -> Result<ConnectionPool, sqlx::Error> {
    let options = AnyPoolOptions::new().max_connections(max).acquire_timeout(SERVER_TIMEOUT);
    let pool = options.connect_lazy(&location.url().unwrap_or_default())?;
    Ok(match location.is_behind_pooler() {
        true => ConnectionPool::behind_transaction_pooler(pool),
        false => ConnectionPool::to_server(pool),
    })
}

/// A pool of connections to a file, with additional settings for each. The settings of the pool that connects first must not read the
/// file: sqlx retries a connection whose settings fail, and reports a timeout instead of the cause.
fn file_pool(max: u32, settings: &str) -> AnyPoolOptions {
    let settings = format!(
        "PRAGMA busy_timeout = {}; PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}{settings}",
        LOCK_TIMEOUT.as_millis()
    );
    AnyPoolOptions::new()
        .max_connections(max)
        // A file does not disconnect as a server does.
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(move |connection, _| {
            let settings = sqlx::AssertSqlSafe(settings.clone());
            Box::pin(async move { sqlx::raw_sql(settings).execute(connection).await.map(drop) })
        })
}

/// Locks the database while it is opened; the empty lock file stays.
fn lock(location: &Location) -> io::Result<File> {
    let path = location.companion(".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{Location, Store};

    /// This is SQLite's default, unless it was compiled with another one.
    #[tokio::test]
    async fn commits_are_synced_to_disk() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let level = store.query_number("SELECT synchronous FROM pragma_synchronous").await.unwrap();
        assert_eq!(level, 2);
    }
}
