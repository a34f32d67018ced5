//! Copies everything from one database into another one that is empty, all of it or nothing.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::digest::Sha256Hex;
use futures_util::TryStreamExt as _;
use sqlx::any::{AnyRow, AnyTypeInfoKind};
use sqlx::{Any, Column as _, Executor, Row as _, ValueRef as _};

use crate::connections::WriteConnection;
use crate::open::Store;
use crate::sql::Engine;

/// A table and how many rows it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRows {
    pub name: String,
    pub rows: u64,
}

/// The content of a table, independent of the order of its rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    rows: u64,
    digests: u128,
}

/// A value of a row, of the types that our tables have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Store {
    /// Copies all tables of this database into another one, which must be empty, and compares them afterwards. The key
    /// of the secrets is copied, too.
    pub async fn copy_to(&self, to: &Self) -> Result<Vec<TableRows>, StoreError> {
        let mut writing = to.begin_copy().await?;
        for name in ["runs", "events", "resources", "tokens", "audit"] {
            if to.content(&mut *writing, name).await?.rows > 0 {
                writing.rollback().await;
                return Err(to.failure(format!("it is not empty: `{name}` has rows")));
            }
        }
        // What is written meanwhile would be missing.
        let mut reading = self.begin_copy().await?;
        let mut copied = Vec::new();
        for name in self.tables(&mut *reading).await? {
            to.execute(&mut *writing, format!("DELETE FROM {name}")).await?;
            let columns = to.columns(&mut *writing, &name).await?;
            let all = format!("SELECT * FROM {name}");
            let mut rows = sqlx::query(sqlx::AssertSqlSafe(all)).fetch(&mut *reading);
            while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
                let row = values(&row).map_err(|error| self.error(&error))?;
                to.insert_row(&mut *writing, &name, &columns, &row).await?;
            }
            drop(rows);
            let (there, here) = (
                self.content(&mut *reading, &name).await?,
                to.content(&mut *writing, &name).await?,
            );
            if there != here {
                return Err(to.failure(format!("the copy of `{name}` differs; nothing was kept")));
            }
            copied.push(TableRows { name, rows: here.rows });
        }
        copy_key(&self.location.companion(".key"), &to.location.companion(".key")).map_err(
            |error| to.failure(format!("the key of the secrets cannot be copied: {error}")),
        )?;
        writing.commit().await.map_err(|error| to.error(&error))?;
        reading.rollback().await;
        Ok(copied)
    }

    /// Begins a transaction that waits while a whole table is read from or written to the other database.
    async fn begin_copy(&self) -> Result<WriteConnection, StoreError> {
        let mut copy = self.begin_write().await?;
        for statement in self.engine().without_time_limits() {
            self.execute(&mut *copy, (*statement).to_owned()).await?;
        }
        Ok(copy)
    }

    /// How many rows each table has.
    pub async fn count_rows(&self) -> Result<Vec<TableRows>, StoreError> {
        let mut counted = Vec::new();
        for name in self.tables(&self.pool).await? {
            let count = format!("SELECT COUNT(*) FROM {name}");
            let row = sqlx::query(sqlx::AssertSqlSafe(count)).fetch_one(&self.pool).await;
            let rows: i64 =
                row.and_then(|row| row.try_get(0)).map_err(|error| self.error(&error))?;
            counted.push(TableRows { name, rows: rows.unsigned_abs() });
        }
        Ok(counted)
    }

    async fn tables(
        &self,
        connection: impl Executor<'_, Database = Any>,
    ) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(self.engine().own_tables()).fetch_all(connection).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| self.error(&error))).collect()
    }

    /// The columns of a table and whether each is a number, text or bytes: a null needs a type.
    async fn columns(
        &self,
        connection: impl Executor<'_, Database = Any>,
        table: &str,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let rows = sqlx::query(self.engine().columns()).bind(table).fetch_all(connection).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let read =
            |row: &AnyRow| Ok((row.try_get(0)?, row.try_get::<String, _>(1)?.to_uppercase()));
        rows.iter().map(|row| read(row).map_err(|error: sqlx::Error| self.error(&error))).collect()
    }

    async fn insert_row(
        &self,
        connection: impl Executor<'_, Database = Any>,
        table: &str,
        columns: &BTreeMap<String, String>,
        row: &BTreeMap<String, Value>,
    ) -> Result<(), StoreError> {
        let names: Vec<&str> = row.keys().map(String::as_str).collect();
        let places = self.engine().row_placeholders(1, 1, names.len());
        let statement = format!("INSERT INTO {table} ({}) VALUES {places}", names.join(", "));
        let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
        for (name, value) in row {
            query = match value {
                Value::Number(number) => query.bind(*number),
                Value::Text(text) => query.bind(text.clone()),
                Value::Bytes(bytes) => query.bind(bytes.clone()),
                Value::Null if columns.get(name).is_some_and(|kind| kind.contains("INT")) => {
                    query.bind(None::<i64>)
                }
                Value::Null => query.bind(None::<String>),
            };
        }
        query.execute(connection).await.map(drop).map_err(|error| {
            let why = crate::sql::database_message(&error);
            self.failure(format!("a row of `{table}` cannot be copied: {why}"))
        })
    }

    async fn content(
        &self,
        connection: impl Executor<'_, Database = Any>,
        table: &str,
    ) -> Result<Content, StoreError> {
        let mut content = Content::default();
        let all = format!("SELECT * FROM {table}");
        let mut rows = sqlx::query(sqlx::AssertSqlSafe(all)).fetch(connection);
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
            let row = values(&row).map_err(|error| self.error(&error))?;
            let text = serde_json::to_string(&row).unwrap_or_default();
            let digest = Sha256Hex::of(text);
            let number = u128::from_str_radix(digest.prefix(32), 16).unwrap_or_default();
            content.rows += 1;
            content.digests = content.digests.wrapping_add(number);
        }
        Ok(content)
    }

    async fn execute(
        &self,
        connection: impl Executor<'_, Database = Any>,
        statement: String,
    ) -> Result<(), StoreError> {
        let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await;
        done.map(drop).map_err(|error| self.error(&error))
    }
}

/// The values of a row, by the names of its columns: their order differs between databases.
fn values(row: &AnyRow) -> Result<BTreeMap<String, Value>, sqlx::Error> {
    let mut values = BTreeMap::new();
    for column in row.columns() {
        let place = column.ordinal();
        let raw = row.try_get_raw(place)?;
        let value = match (raw.is_null(), raw.type_info().kind()) {
            (true, _) | (_, AnyTypeInfoKind::Null) => Value::Null,
            (_, AnyTypeInfoKind::Blob) => Value::Bytes(row.try_get(place)?),
            (_, AnyTypeInfoKind::Text) => Value::Text(row.try_get(place)?),
            (_, _) => Value::Number(row.try_get(place)?),
        };
        values.insert(column.name().to_owned(), value);
    }
    Ok(values)
}

/// A key that is there already stays; another one would leave secrets that nobody can read.
fn copy_key(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    if to.exists() {
        return match std::fs::read(from)? == std::fs::read(to)? {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("{} is another key", to.display()))),
        };
    }
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // With its mode: it is readable by its owner only.
    std::fs::copy(from, to).map(drop)
}

impl Engine {
    /// Our tables, without the list of migrations.
    fn own_tables(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
                 AND name <> '_sqlx_migrations' ORDER BY name"
            }
            Self::Postgres => {
                "SELECT CAST(table_name AS TEXT) FROM information_schema.tables WHERE table_schema \
                 = current_schema() AND table_type = 'BASE TABLE' AND table_name <> \
                 '_sqlx_migrations' ORDER BY 1"
            }
        }
    }

    /// The names and types of the columns of a table.
    fn columns(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT name, type FROM pragma_table_info($1)",
            Self::Postgres => {
                "SELECT CAST(column_name AS TEXT), CAST(data_type AS TEXT) FROM \
                 information_schema.columns WHERE table_schema = current_schema() AND \
                 table_name = $1"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_key;

    #[test]
    fn a_key_is_copied_once_and_never_replaced_or_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from.key"), place.path().join("to.key"));
        copy_key(&from, &to).unwrap();
        assert!(!to.exists(), "there is none");
        std::fs::write(&from, "one").unwrap();
        copy_key(&from, &to).unwrap();
        copy_key(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
        std::fs::write(&from, "another").unwrap();
        assert!(copy_key(&from, &to).is_err());
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
    }
}
