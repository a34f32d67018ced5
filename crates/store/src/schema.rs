//! The versions of the schema: which databases this program can use, and how it migrates older ones.

use std::time::Duration;

use bailiwick_lifecycle::ports::StoreError;
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::connections::WriteConnection;
use crate::open::Store;

/// The newest schema version that this program knows.
pub(crate) const SCHEMA_VERSION: i64 = 16;

/// Keeps other programs from writing and migrating until the transaction ends, however long that takes.
const LOCK_SERVER: &str = "BEGIN; SELECT pg_advisory_xact_lock(7090124316558219001)";

/// Ends a migration that waits for a table: all who use the table wait behind it.
const LIMIT_LOCK_WAIT: &str = "SET lock_timeout = '5s'";

/// How often a migration that had to wait for a table is tried, and the pause after each time, in which others can use
/// the table.
const MIGRATION_TRIES: u32 = 24;
const MIGRATION_PAUSE: Duration = Duration::from_secs(2);

/// The code of PostgreSQL's error for a wait for a lock that took too long.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// All migrations, in their order: the name and the statements. A migration only adds, so that older programs can still
/// use the database, or raises `oldest_usable`.
const MIGRATIONS: [(&str, &str); 16] = [
    ("runs", include_str!("../migrations/0001_runs.sql")),
    ("attempts", include_str!("../migrations/0002_attempts.sql")),
    ("claims", include_str!("../migrations/0003_claims.sql")),
    ("delegates", include_str!("../migrations/0004_delegates.sql")),
    ("fleet", include_str!("../migrations/0005_fleet.sql")),
    ("names", include_str!("../migrations/0006_names.sql")),
    ("exhausted", include_str!("../migrations/0007_exhausted.sql")),
    ("people", include_str!("../migrations/0008_people.sql")),
    ("saved_filters", include_str!("../migrations/0009_saved_filters.sql")),
    ("leader_lease", include_str!("../migrations/0010_leader_lease.sql")),
    ("workers", include_str!("../migrations/0011_workers.sql")),
    ("checks", include_str!("../migrations/0012_checks.sql")),
    ("attempt jobs", include_str!("../migrations/0013_attempt_jobs.sql")),
    ("compatibility", include_str!("../migrations/0014_compatibility.sql")),
    ("claim index", include_str!("../migrations/0015_claim_index.sql")),
    ("pod grants", include_str!("../migrations/0016_pod_grants.sql")),
];

/// A schema that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It can be used as it is.
    Usable,
    /// It has to be migrated first.
    Older { version: i64 },
}

/// Why a migration failed.
enum MigrationFailure {
    /// Others used a table for too long.
    TableInUse(StoreError),
    Failed(StoreError),
}

impl Store {
    /// Brings the schema of a file up to date. The caller holds a lock against other programs that do the same.
    pub(crate) async fn migrate_file(&self) -> Result<(), StoreError> {
        let Found::Older { version } = self.check_schema().await? else { return Ok(()) };
        self.refuse_foreign_tables(version).await?;
        sqlx::raw_sql("PRAGMA journal_mode = WAL")
            .execute(self.pool.as_direct())
            .await
            .map_err(|error| self.error(&error))?;
        let migrated = self.migrator().run(self.pool.as_direct()).await;
        migrated.map_err(|error| self.migration_failed(&error))
    }

    /// Brings the schema on a server up to date, one program at a time, while others use it.
    pub(crate) async fn migrate_server(&self) -> Result<(), StoreError> {
        if self.check_schema().await? == Found::Usable {
            return Ok(());
        }
        self.check_direct()?;
        let mut tries_left = MIGRATION_TRIES;
        loop {
            let lock = WriteConnection::begin_without_limit(&self.pool, LOCK_SERVER).await;
            let lock = lock.map_err(|error| self.error(&error))?;
            let migrated = self.migrate_locked_server().await;
            lock.rollback().await;
            tries_left = tries_left.saturating_sub(1);
            match migrated {
                Ok(()) => return Ok(()),
                Err(MigrationFailure::TableInUse(_)) if tries_left > 0 => {
                    tokio::time::sleep(MIGRATION_PAUSE).await;
                }
                Err(MigrationFailure::TableInUse(error) | MigrationFailure::Failed(error)) => {
                    return Err(error);
                }
            }
        }
    }

    async fn migrate_locked_server(&self) -> Result<(), MigrationFailure> {
        // Another program may have migrated it meanwhile.
        let found = self.check_schema().await.map_err(MigrationFailure::Failed)?;
        let Found::Older { version } = found else { return Ok(()) };
        self.refuse_foreign_tables(version).await.map_err(MigrationFailure::Failed)?;
        let failed = |error: &sqlx::Error| MigrationFailure::Failed(self.error(error));
        let connection = self.pool.as_direct().acquire().await.map_err(|error| failed(&error))?;
        // It does not go back to the pool: its settings and locks end with it.
        let mut connection = connection.detach();
        let limited = sqlx::raw_sql(LIMIT_LOCK_WAIT).execute(&mut connection).await;
        limited.map_err(|error| failed(&error))?;
        let migrated = self.migrator().run_direct(None, &mut connection, false).await;
        let _ = sqlx::Connection::close(connection).await;
        migrated.map_err(|error| match is_lock_timeout(&error) {
            true => MigrationFailure::TableInUse(self.migration_failed(&error)),
            false => MigrationFailure::Failed(self.migration_failed(&error)),
        })
    }

    /// Compares the schema with what this program knows. A newer one can be used if all migrations since have only added
    /// to it.
    async fn check_schema(&self) -> Result<Found, StoreError> {
        let found = self.schema().await?;
        if found == SCHEMA_VERSION {
            return Ok(Found::Usable);
        }
        if found < SCHEMA_VERSION {
            return Ok(Found::Older { version: found });
        }
        match self.oldest_usable().await? <= SCHEMA_VERSION {
            true => Ok(Found::Usable),
            false => {
                let database = self.location.to_string();
                Err(StoreError::TooNew { database, found, known: SCHEMA_VERSION })
            }
        }
    }

    /// The oldest schema version whose programs can use the database, which has a newer schema.
    async fn oldest_usable(&self) -> Result<i64, StoreError> {
        // If the row is missing, no older program can.
        self.query_number(
            "SELECT COALESCE(MAX(oldest_usable), 9223372036854775807) FROM schema_compatibility",
        )
        .await
    }

    async fn refuse_foreign_tables(&self, version: i64) -> Result<(), StoreError> {
        if version == 0 && self.query_number(self.database_kind().foreign_tables()).await? > 0 {
            return Err(self.failure(
                "it is the ledger of another program; choose another one with --db or KEI_LEDGER_DB"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn migrator(&self) -> Migrator {
        let migration = |(number, (name, text)): (i64, (&'static str, &'static str))| {
            let text = sqlx::AssertSqlSafe(self.database_kind().migration(text)).into_sql_str();
            Migration::new(number, name.into(), MigrationType::Simple, text, false)
        };
        Migrator::with_migrations((1..).zip(MIGRATIONS).map(migration).collect())
    }

    fn migration_failed(&self, error: &MigrateError) -> StoreError {
        self.failure(format!("the schema could not be migrated: {error}"))
    }

    /// Migrations are run over a direct connection: a half-done one must end with its connection.
    fn check_direct(&self) -> Result<(), StoreError> {
        match self.pool.is_behind_pooler() {
            true => Err(self.failure(
                "its schema cannot be changed through a transaction pooler; run `bailiwick db migrate` with the \
                 address of the server itself, without `pooler=transaction`"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// The version of its schema.
    pub async fn schema(&self) -> Result<i64, StoreError> {
        if self.query_number(self.database_kind().migrations_table()).await? == 0 {
            return Ok(0);
        }
        self.query_number(
            "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success = TRUE",
        )
        .await
    }

    /// Fails unless the schema is exactly the one that this program knows: a copy needs all tables and columns.
    pub(crate) async fn require_known_schema(&self) -> Result<(), StoreError> {
        let found = self.schema().await?;
        match found == SCHEMA_VERSION {
            true => Ok(()),
            false => {
                let database = self.location.to_string();
                Err(StoreError::TooNew { database, found, known: SCHEMA_VERSION })
            }
        }
    }
}

/// Whether a migration waited for a table for too long.
fn is_lock_timeout(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code == LOCK_NOT_AVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::{MIGRATIONS, SCHEMA_VERSION};

    /// The first schema version that says which older programs can use it.
    const FIRST_WITH_COMPATIBILITY: i64 = 14;

    /// What makes a migration only add: new tables, indexes and rows, and columns that older programs need not fill.
    fn only_adds(statement: &str) -> bool {
        let adds_column = statement.starts_with("ALTER TABLE")
            && statement.contains(" ADD COLUMN ")
            && (statement.contains(" DEFAULT ") || !statement.contains(" NOT NULL"));
        let beginnings = ["CREATE TABLE ", "CREATE INDEX ", "INSERT INTO ", "DROP INDEX "];
        adds_column || beginnings.iter().any(|beginning| statement.starts_with(beginning))
    }

    fn statements(migration: &str) -> Vec<String> {
        let lines = migration.lines().map(|line| line.split("--").next().unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join(" ");
        let words = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ");
        text.split(';').map(words).filter(|statement| !statement.is_empty()).collect()
    }

    /// Whether older programs can use what it leaves, or are refused.
    fn is_safe(number: i64, migration: &str) -> bool {
        let raises = format!("UPDATE schema_compatibility SET oldest_usable = {number}");
        let statements = statements(migration);
        statements.contains(&raises) || statements.iter().all(|statement| only_adds(statement))
    }

    #[test]
    fn migration_only_adds_or_refuses_older_programs() {
        for (number, (name, text)) in (1..).zip(MIGRATIONS) {
            if number >= FIRST_WITH_COMPATIBILITY {
                assert!(
                    is_safe(number, text),
                    "{number} {name}: raise `oldest_usable` to {number}"
                );
            }
        }
        assert_eq!(i64::try_from(MIGRATIONS.len()), Ok(SCHEMA_VERSION));
    }

    #[test]
    fn migration_that_takes_away_is_recognised() {
        for taken in [
            "ALTER TABLE runs DROP COLUMN name;",
            "-- A comment; with more.\nDROP TABLE runs;",
            "ALTER TABLE runs ADD COLUMN size BIGINT NOT NULL;",
            "ALTER TABLE runs RENAME TO agents;",
            "CREATE UNIQUE INDEX runs_branch ON runs (branch);",
            "UPDATE schema_compatibility SET oldest_usable = 16; DROP TABLE runs;",
        ] {
            assert!(!is_safe(17, taken), "{taken}");
        }
        assert!(is_safe(17, "ALTER TABLE runs ADD COLUMN size BIGINT NOT NULL DEFAULT 0;"));
        assert!(is_safe(17, "UPDATE schema_compatibility SET oldest_usable = 17; DROP TABLE x;"));
    }
}
