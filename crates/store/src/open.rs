//! Opens the database and migrates its schema.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::ports::StoreError;
use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Any, AnyPool, Row, SqlSafeStr, Transaction};

use crate::fleet::Fleet;
use crate::location::Location;

/// The newest schema version that this program knows.
const SCHEMA_VERSION: i64 = 7;

/// Starts a write transaction: it waits for other writers at its start, so it never has to be retried.
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";

/// How long a write waits for other writers.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// How many pages the write-ahead log has before a checkpoint. Most writes change the same pages, so fewer
/// checkpoints write less.
const WAL_CHECKPOINT_PAGES: u32 = 8_192;

/// The page cache of the writing connection. The caches of the others are dropped after each write.
const WRITER_CACHE_KIB: u32 = 8_000;

/// A boxed future: its code is compiled once, not again in each caller.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub struct Store {
    pub(crate) location: Location,
    pub(crate) pool: AnyPool,
    pub(crate) fleet: Arc<Fleet>,
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
    /// Opens the database; creates it and its directory if needed.
    pub fn open(location: Location) -> BoxFuture<'static, Result<Self, StoreError>> {
        Box::pin(Self::open_database(location))
    }

    /// Closes all connections; the last connection of all processes runs a checkpoint.
    pub async fn close(&self) {
        self.fleet.close().await;
    }

    async fn open_database(location: Location) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let fail = |why: String| StoreError::Database { database: location.to_string(), why };
        if let Some(directory) = location.path().parent() {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            created.map_err(|error| {
                fail(format!("its directory {} cannot be created: {error}", directory.display()))
            })?;
        }
        create_private(location.path()).map_err(|error| fail(error.to_string()))?;
        let url = location.url().ok_or_else(|| fail("its path is not UTF-8".to_owned()))?;
        let lock = lock(&location).map_err(|error| fail(error.to_string()))?;
        let failed = |error: sqlx::Error| fail(database_message(&error));
        // A waiting caller may wait for writers that themselves wait this long.
        let pool = pool_options(4, "").acquire_timeout(2 * LOCK_TIMEOUT);
        let pool = pool.connect(&url).await.map_err(failed)?;
        let settings = format!("; PRAGMA cache_size = -{WRITER_CACHE_KIB}");
        let writer = pool_options(1, &settings).connect_lazy(&url).map_err(failed)?;
        let fleet = Fleet::new(location.clone(), pool.clone(), writer);
        let store = Self { location, pool, fleet };
        store.migrate().await?;
        let indexed = store.fleet.check_index().await;
        indexed.map_err(|error| StoreError::Database {
            database: store.location.to_string(),
            why: format!("its index could not be updated: {error}"),
        })?;
        drop(lock);
        Ok(store)
    }

    /// Must run under the lock: sqlx's migrator is not safe against other processes on a new file, and the
    /// switch to WAL mode does not wait for a lock.
    async fn migrate(&self) -> Result<(), StoreError> {
        let found = self.schema_version().await?;
        if found > SCHEMA_VERSION {
            let database = self.location.to_string();
            return Err(StoreError::TooNew { database, found, known: SCHEMA_VERSION });
        }
        if found == SCHEMA_VERSION {
            return Ok(());
        }
        let foreign_tables = "SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') \
                      AND name IN ('agents', 'runs', 'specs', 'events')";
        if found == 0 && self.query_number(foreign_tables).await? > 0 {
            let why = "it is the ledger of another program; choose another file with --db or \
                       KEI_LEDGER_DB";
            return Err(StoreError::Database {
                database: self.location.to_string(),
                why: why.to_owned(),
            });
        }
        sqlx::raw_sql("PRAGMA journal_mode = WAL")
            .execute(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let migration = |version: i64, name: &'static str, text: &'static str| {
            let kind = MigrationType::Simple;
            Migration::new(version, name.into(), kind, text.into_sql_str(), false)
        };
        let all = vec![
            migration(1, "runs", include_str!("../migrations/0001_runs.sql")),
            migration(2, "attempts", include_str!("../migrations/0002_attempts.sql")),
            migration(3, "claims", include_str!("../migrations/0003_claims.sql")),
            migration(4, "delegates", include_str!("../migrations/0004_delegates.sql")),
            migration(5, "fleet", include_str!("../migrations/0005_fleet.sql")),
            migration(6, "names", include_str!("../migrations/0006_names.sql")),
            migration(7, "exhausted", include_str!("../migrations/0007_exhausted.sql")),
        ];
        Migrator::with_migrations(all).run(&self.pool).await.map_err(|error| {
            let why = format!("the schema could not be migrated: {error}");
            StoreError::Database { database: self.location.to_string(), why }
        })
    }

    async fn schema_version(&self) -> Result<i64, StoreError> {
        let has_migrations = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        if self.query_number(has_migrations).await? == 0 {
            return Ok(0);
        }
        self.query_number(
            "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success = TRUE",
        )
        .await
    }

    async fn query_number(&self, query: &'static str) -> Result<i64, StoreError> {
        let row: AnyRow =
            sqlx::query(query).fetch_one(&self.pool).await.map_err(|error| self.error(&error))?;
        row.try_get(0).map_err(|error| self.error(&error))
    }

    pub(crate) async fn begin_write(&self) -> Result<Transaction<'_, Any>, StoreError> {
        self.pool.begin_with(BEGIN_WRITE).await.map_err(|error| self.error(&error))
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::Database { database: self.location.to_string(), why: database_message(error) }
    }
}

/// Pool options with additional settings for each connection. The settings of the pool that connects first must not read the
/// file: sqlx retries a connection whose settings fail, and reports a timeout instead of the cause.
fn pool_options(max: u32, settings: &str) -> AnyPoolOptions {
    let settings = format!(
        "PRAGMA busy_timeout = {}; PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}{settings}",
        LOCK_TIMEOUT.as_millis()
    );
    AnyPoolOptions::new()
        .max_connections(max)
        // A file does not disconnect as a server does.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let settings = sqlx::AssertSqlSafe(settings.clone());
            Box::pin(async move { sqlx::raw_sql(settings).execute(connection).await.map(drop) })
        })
}

/// The message of the database, without the layers around it.
pub(crate) fn database_message(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// Locks the database while it is opened; the empty lock file stays.
fn lock(location: &Location) -> io::Result<File> {
    let mut path = location.path().as_os_str().to_owned();
    path.push(".lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(PathBuf::from(path))?;
    file.lock()?;
    Ok(file)
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
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
