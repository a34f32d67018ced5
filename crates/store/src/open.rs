//! Opening the database, and bringing its schema up to date.

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

/// The newest schema that is known here.
const SCHEMA: i64 = 6;

/// How a transaction begins that writes: it waits for the others now, and never has to be begun anew.
pub(crate) const WRITING: &str = "BEGIN IMMEDIATE";

/// How long a write waits for the others.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many pages are written beside the file before they are brought into it. Most of what is written comes to
/// the same pages again and again: the fewer times, the less is written twice.
const WRITTEN_BESIDE: u32 = 8_192;

/// What the connection that writes remembers of the file, in KiB: more than the others, because whatever they
/// remember is forgotten when it has written.
const WRITER_CACHE: u32 = 8_000;

/// Work that is compiled here, once, and not again wherever it is waited for.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs, specs and events; the resources of the control plane.
pub struct Store {
    pub(crate) location: Location,
    pub(crate) pool: AnyPool,
    pub(crate) fleet: Arc<Fleet>,
}

/// Makes the file if there is none, and takes it from other users: it has prompts and what agents said. SQLite
/// gives the files beside it the same mode.
fn make_private(file: &Path) -> io::Result<()> {
    // One that is there is never opened here: closing it would drop SQLite's locks of this process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map(drop),
    }
    let mode = fs::metadata(file)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(file, Permissions::from_mode(mode & 0o700)) {
        // Another user's is that user's to protect.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

impl Store {
    /// Opens the database; makes it, with its directory, if there is none.
    pub fn open(location: Location) -> Pending<'static, Result<Self, StoreError>> {
        Box::pin(Self::opened(location))
    }

    /// Ends all connections; the last one of all processes brings what was written beside the file into it.
    pub async fn close(&self) {
        self.fleet.close().await;
    }

    async fn opened(location: Location) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let fail = |why: String| StoreError::Database { database: location.to_string(), why };
        if let Some(directory) = location.path().parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| {
                fail(format!("its directory {} cannot be made: {error}", directory.display()))
            })?;
        }
        make_private(location.path()).map_err(|error| fail(error.to_string()))?;
        let url = location.url().ok_or_else(|| fail("its path is not UTF-8".to_owned()))?;
        let lock = lock(&location).map_err(|error| fail(error.to_string()))?;
        let failed = |error: sqlx::Error| fail(reason(&error));
        // Whoever waits for a connection waits for others that write, each of which may wait as long itself.
        let pool = connections(4, "").acquire_timeout(2 * PATIENCE);
        let pool = pool.connect(&url).await.map_err(failed)?;
        let remembering = format!("; PRAGMA cache_size = -{WRITER_CACHE}");
        let writer = connections(1, &remembering).connect_lazy(&url).map_err(failed)?;
        let fleet = Fleet::new(location.clone(), pool.clone(), writer);
        let store = Self { location, pool, fleet };
        store.migrate().await?;
        let indexed = store.fleet.check_index().await;
        indexed.map_err(|error| StoreError::Database {
            database: store.location.to_string(),
            why: format!("its index could not be brought up to date: {error}"),
        })?;
        drop(lock);
        Ok(store)
    }

    /// Under the lock: sqlx's own migrator is not safe against other processes on a fresh file,
    /// and the change to WAL cannot be waited for.
    async fn migrate(&self) -> Result<(), StoreError> {
        let found = self.schema().await?;
        if found > SCHEMA {
            let database = self.location.to_string();
            return Err(StoreError::TooNew { database, found, known: SCHEMA });
        }
        if found == SCHEMA {
            return Ok(());
        }
        let others = "SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') \
                      AND name IN ('agents', 'runs', 'specs', 'events')";
        if found == 0 && self.number(others).await? > 0 {
            let why = "it is the ledger of another program; name another file with --db or \
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
        ];
        Migrator::with_migrations(all).run(&self.pool).await.map_err(|error| {
            let why = format!("the schema could not be brought up to date: {error}");
            StoreError::Database { database: self.location.to_string(), why }
        })
    }

    async fn schema(&self) -> Result<i64, StoreError> {
        let known = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        if self.number(known).await? == 0 {
            return Ok(0);
        }
        self.number("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success = TRUE")
            .await
    }

    async fn number(&self, query: &'static str) -> Result<i64, StoreError> {
        let row: AnyRow =
            sqlx::query(query).fetch_one(&self.pool).await.map_err(|error| self.error(&error))?;
        row.try_get(0).map_err(|error| self.error(&error))
    }

    /// A transaction that writes from its beginning, so that it never has to be begun anew.
    pub(crate) async fn writing(&self) -> Result<Transaction<'_, Any>, StoreError> {
        self.pool.begin_with(WRITING).await.map_err(|error| self.error(&error))
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::Database { database: self.location.to_string(), why: reason(error) }
    }
}

/// At most so many connections, each with these settings of its own besides. Those of the pool that is opened
/// first must not read the file: sqlx tries a connection whose settings fail again and again, and says in the end
/// that time is over, not what is wrong with the file.
fn connections(most: u32, own: &str) -> AnyPoolOptions {
    let settings = format!(
        "PRAGMA busy_timeout = {}; PRAGMA wal_autocheckpoint = {WRITTEN_BESIDE}{own}",
        PATIENCE.as_millis()
    );
    AnyPoolOptions::new()
        .max_connections(most)
        // A file does not go away as a server does.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let settings = sqlx::AssertSqlSafe(settings.clone());
            Box::pin(async move { sqlx::raw_sql(settings).execute(connection).await.map(drop) })
        })
}

/// What the database said, without the layers around it.
pub(crate) fn reason(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// Held while the database is opened; the file beside it stays, empty.
fn lock(location: &Location) -> io::Result<File> {
    let mut path = location.path().as_os_str().to_owned();
    path.push(".lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(PathBuf::from(path))?;
    file.lock()?;
    Ok(file)
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Location, Store};

    /// Nothing here says so to the database: it must not be built to do less by default.
    #[tokio::test]
    async fn a_commit_waits_for_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let level = store.number("SELECT synchronous FROM pragma_synchronous").await.unwrap();
        assert_eq!(level, 2);
    }
}
