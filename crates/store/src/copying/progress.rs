//! How far a copy has come, in a table of its target. The last transaction of the copy drops the table. While it is
//! there, nothing but the copy opens the database.

use bailiwick_lifecycle::ports::StoreError;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::rows::Content;
use crate::connections::{Connection, WriteConnection};
use crate::location::Location;
use crate::open::Store;
use crate::schema::SCHEMA_VERSION;
use crate::sql::DatabaseKind;

const CREATE: &str = "CREATE TABLE unfinished_copy (table_name TEXT NOT NULL PRIMARY KEY, \
                      copied_rows BIGINT NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, \
                      schema_version BIGINT NOT NULL)";

/// Tables that have rows wherever a database was used.
const EMPTY_AT_FIRST: [&str; 5] = ["runs", "events", "resources", "tokens", "audit"];

/// A table and what the target has of it.
#[derive(Debug)]
pub(super) struct TableProgress {
    pub(super) table: String,
    pub(super) content: Content,
}

impl Store {
    /// Fails if the database is an unfinished copy.
    pub(crate) async fn refuse_unfinished_copy(&self) -> Result<(), StoreError> {
        if self.query_number(self.database_kind().unfinished_copy_table()).await? == 0 {
            return Ok(());
        }
        let source = sqlx::query("SELECT source FROM unfinished_copy").fetch_optional(&self.pool);
        let source = source.await.map_err(|error| self.error(&error))?;
        let source: Option<String> = source
            .map(|row| row.try_get(0))
            .transpose()
            .map_err(|error: sqlx::Error| self.error(&error))?;
        let source = source.unwrap_or_default();
        Err(self.failure(format!(
            "it is an unfinished copy of {source}; finish it with `bailiwick db copy --from {source} --to {}`, or use \
             another database",
            self.location
        )))
    }

    async fn is_unfinished_copy(&self, connection: &mut Connection) -> Result<bool, StoreError> {
        let row =
            sqlx::query(self.database_kind().unfinished_copy_table()).fetch_one(connection).await;
        let count: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| self.error(&error))?;
        Ok(count > 0)
    }

    /// Marks this database as an unfinished copy once the transaction is committed. Returns what it has of each table:
    /// nothing, unless the copy was begun before.
    pub(super) async fn mark_unfinished(
        &self,
        source: &Location,
    ) -> Result<(WriteConnection, Vec<TableProgress>), StoreError> {
        let mut writing = self.begin_copy().await?;
        let progress = match self.is_unfinished_copy(&mut writing).await? {
            true => self.progress(&mut writing).await,
            false => self.begin_progress(&mut writing, source).await,
        };
        match progress {
            Ok(progress) => Ok((writing, progress)),
            Err(error) => {
                writing.rollback().await;
                Err(error)
            }
        }
    }

    async fn begin_progress(
        &self,
        writing: &mut Connection,
        source: &Location,
    ) -> Result<Vec<TableProgress>, StoreError> {
        for name in EMPTY_AT_FIRST {
            if self.has_rows(writing, name).await? {
                return Err(self.failure(format!("it is not empty: `{name}` has rows")));
            }
        }
        let tables = self.tables(&mut *writing).await?;
        self.execute(writing, CREATE.to_owned()).await?;
        for table in &tables {
            self.execute(writing, format!("DELETE FROM {table}")).await?;
            let add = "INSERT INTO unfinished_copy (table_name, copied_rows, digest, source, \
                       schema_version) VALUES ($1, 0, '', $2, $3)";
            let add = sqlx::query(add).bind(table).bind(source.to_string()).bind(SCHEMA_VERSION);
            add.execute(&mut *writing).await.map_err(|error| self.error(&error))?;
        }
        let nothing = |table| TableProgress { table, content: Content::default() };
        Ok(tables.into_iter().map(nothing).collect())
    }

    async fn has_rows(&self, connection: &mut Connection, table: &str) -> Result<bool, StoreError> {
        let count = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT 1) AS found");
        let row = sqlx::query(sqlx::AssertSqlSafe(count)).fetch_one(connection).await;
        let count: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| self.error(&error))?;
        Ok(count > 0)
    }

    /// How far the copy that was interrupted had come.
    async fn progress(
        &self,
        connection: &mut Connection,
    ) -> Result<Vec<TableProgress>, StoreError> {
        let all = "SELECT table_name, copied_rows, digest, schema_version FROM unfinished_copy";
        let rows = sqlx::query(all).fetch_all(connection).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let mut progress: Vec<TableProgress> = Vec::new();
        for row in &rows {
            let (table, schema) = read(row).map_err(|error| self.error(&error))?;
            if schema != SCHEMA_VERSION {
                return Err(self.failure(
                    "another version of bailiwick has begun to copy into it; copy into an empty database"
                        .to_owned(),
                ));
            }
            progress.push(table);
        }
        progress.sort_by(|one, other| one.table.cmp(&other.table));
        Ok(progress)
    }

    /// Records how far the copy of a table has come. It fails if another program copies into the database, too.
    pub(super) async fn advance(
        &self,
        writing: &mut Connection,
        table: &str,
        before: &Content,
        now: &Content,
    ) -> Result<(), StoreError> {
        let advance = "UPDATE unfinished_copy SET copied_rows = $1, digest = $2 \
                       WHERE table_name = $3 AND copied_rows = $4 AND digest = $5";
        let advance = sqlx::query(advance)
            .bind(signed(now.rows))
            .bind(&now.digest)
            .bind(table)
            .bind(signed(before.rows))
            .bind(&before.digest)
            .execute(writing);
        match advance.await.map_err(|error| self.error(&error))?.rows_affected() {
            1 => Ok(()),
            _ => Err(self.failure("another `bailiwick db copy` writes to it".to_owned())),
        }
    }

    pub(super) async fn drop_progress(&self, writing: &mut Connection) -> Result<(), StoreError> {
        self.execute(writing, "DROP TABLE unfinished_copy".to_owned()).await
    }
}

/// A table and the version of the schema that the copy has.
fn read(row: &AnyRow) -> Result<(TableProgress, i64), sqlx::Error> {
    let content =
        Content { rows: row.try_get::<i64, _>(1)?.unsigned_abs(), digest: row.try_get(2)? };
    Ok((TableProgress { table: row.try_get(0)?, content }, row.try_get(3)?))
}

fn signed(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

impl DatabaseKind {
    /// Counts the table that an unfinished copy has.
    fn unfinished_copy_table(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT COUNT(*) FROM sqlite_master WHERE name = 'unfinished_copy'",
            Self::Postgres => {
                "SELECT COUNT(*) FROM pg_catalog.pg_class c \
                 WHERE c.oid = to_regclass('unfinished_copy')"
            }
        }
    }
}
