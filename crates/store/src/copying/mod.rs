//! Copies everything from one database into another one that is empty, in batches. A copy that was interrupted goes on
//! after its last batch. The target cannot be used before all of it was compared with the source.

mod key_file;
mod progress;
mod rows;

use bailiwick_lifecycle::ports::StoreError;
use futures_util::TryStreamExt as _;

use self::progress::TableProgress;
pub use self::rows::TableRows;
use self::rows::{Columns, Content, Row, row_values};
use crate::connections::{Connection, WriteConnection};
use crate::location::Location;
use crate::open::Store;

/// How many rows are written in one transaction.
const BATCH_ROWS: usize = 1_000;

/// How much a transaction writes before it ends, as JSON.
const BATCH_BYTES: usize = 8 << 20;

impl Store {
    /// Copies all tables of this database into another one, which must be empty or an unfinished copy of this one, and
    /// compares them afterwards. The key of the secrets is copied, too.
    pub async fn copy_to(&self, to: &Self) -> Result<Vec<TableRows>, StoreError> {
        self.copy_in_batches(to, BATCH_ROWS, |_| ()).await
    }

    /// The same with batches of this many rows. It calls `committed` after each, with the rows that the table has now.
    pub async fn copy_in_batches(
        &self,
        to: &Self,
        batch_rows: usize,
        mut committed: impl FnMut(&TableRows),
    ) -> Result<Vec<TableRows>, StoreError> {
        self.require_known_schema().await?;
        to.require_known_schema().await?;
        let (own_key, its_key) = (self.location.companion(".key"), to.location.companion(".key"));
        key_file::require_no_other(&own_key, &its_key).map_err(|error| to.uncopied_key(&error))?;
        let (marked, progress) = to.mark_unfinished(&self.location).await?;
        // What is written meanwhile would be missing.
        let mut reading = self.begin_copy().await?;
        marked.commit().await.map_err(|error| to.error(&error))?;
        let mut copied = Vec::new();
        for TableProgress { table, content } in progress {
            let order = self.row_order(&mut reading, &table).await?;
            let columns = to.columns(&to.pool, &table).await?;
            let mut target =
                TargetTable { to, table, columns, stored: content, batch: Vec::new(), bytes: 0 };
            self.copy_table(&mut reading, &order, &mut target, batch_rows, &mut committed).await?;
            copied.push(TableProgress { table: target.table, content: target.stored });
        }
        to.finish_copy(&self.location, &copied).await?;
        reading.rollback().await;
        let rows =
            |copied: TableProgress| TableRows { name: copied.table, rows: copied.content.rows };
        Ok(copied.into_iter().map(rows).collect())
    }

    /// Copies the rows that the target does not have. The others must be those that it has.
    async fn copy_table(
        &self,
        reading: &mut Connection,
        order: &str,
        target: &mut TargetTable<'_>,
        batch_rows: usize,
        committed: &mut impl FnMut(&TableRows),
    ) -> Result<(), StoreError> {
        let before = target.stored.clone();
        let mut read = Content::default();
        let all = format!("SELECT * FROM {} ORDER BY {order}", target.table);
        let mut rows = sqlx::query(sqlx::AssertSqlSafe(all)).fetch(reading);
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
            let row = row_values(&row).map_err(|error| self.error(&error))?;
            let text = self.row_text(&row)?;
            read.add(&text);
            if read.rows <= before.rows {
                if read.rows == before.rows && read != before {
                    return Err(self.changed(&target.table));
                }
                continue;
            }
            target.bytes += text.len();
            target.batch.push(row);
            if target.batch.len() >= batch_rows || target.bytes >= BATCH_BYTES {
                committed(&target.write_batch(&read).await?);
            }
        }
        if read.rows < before.rows {
            return Err(self.changed(&target.table));
        }
        if !target.batch.is_empty() {
            committed(&target.write_batch(&read).await?);
        }
        Ok(())
    }

    fn uncopied_key(&self, error: &std::io::Error) -> StoreError {
        self.failure(format!("the key of the secrets cannot be copied: {error}"))
    }

    fn changed(&self, table: &str) -> StoreError {
        self.failure(format!(
            "rows of `{table}` that were copied have changed since; copy it into an empty database"
        ))
    }

    /// Compares all tables and makes the copy a database that can be used, in one transaction.
    async fn finish_copy(
        &self,
        from: &Location,
        copied: &[TableProgress],
    ) -> Result<(), StoreError> {
        let mut writing = self.begin_copy().await?;
        for TableProgress { table, content } in copied {
            if self.content(&mut writing, table).await? != *content {
                writing.rollback().await;
                return Err(self.failure(format!(
                    "`{table}` differs from {from} after the copy; end all programs that use this database, and copy \
                     into an empty one"
                )));
            }
        }
        key_file::copy(&from.companion(".key"), &self.location.companion(".key"))
            .map_err(|error| self.uncopied_key(&error))?;
        self.drop_progress(&mut writing).await?;
        writing.commit().await.map_err(|error| self.error(&error))
    }

    /// Begins a transaction that waits while a whole table is read from or written to the other database.
    async fn begin_copy(&self) -> Result<WriteConnection, StoreError> {
        let mut copy = self.begin_write().await?;
        copy.wait_without_limit();
        for statement in self.database_kind().without_time_limits() {
            self.execute(&mut copy, (*statement).to_owned()).await?;
        }
        Ok(copy)
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        statement: String,
    ) -> Result<(), StoreError> {
        let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await;
        done.map(drop).map_err(|error| self.error(&error))
    }
}

/// A table of the database that is written.
struct TargetTable<'a> {
    to: &'a Store,
    table: String,
    columns: Columns,
    /// What it has.
    stored: Content,
    /// The rows that it gets next, and their size.
    batch: Vec<Row>,
    bytes: usize,
}

impl TargetTable<'_> {
    /// Writes the batch and how far the copy has come, in one transaction. `read` has the batch as its last rows.
    async fn write_batch(&mut self, read: &Content) -> Result<TableRows, StoreError> {
        let mut writing = self.to.begin_write().await?;
        for row in self.batch.drain(..) {
            self.to.insert_row(&mut writing, &self.table, &self.columns, &row).await?;
        }
        self.to.advance(&mut writing, &self.table, &self.stored, read).await?;
        writing.commit().await.map_err(|error| self.to.error(&error))?;
        self.stored = read.clone();
        self.bytes = 0;
        Ok(TableRows { name: self.table.clone(), rows: read.rows })
    }
}
