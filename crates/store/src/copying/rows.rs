//! Reads and writes the rows of any table.

use std::collections::BTreeMap;

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::digest::Sha256Hex;
use futures_util::TryStreamExt as _;
use sqlx::any::{AnyRow, AnyTypeInfoKind};
use sqlx::{Any, Column as _, Executor, Row as _, ValueRef as _};

use crate::connections::Connection;
use crate::open::Store;
use crate::sql::DatabaseKind;

/// A table and how many rows it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRows {
    pub name: String,
    pub rows: u64,
}

/// The first rows of a table in the order of its key. Each row continues the digest of those before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) rows: u64,
    pub(super) digest: String,
}

impl Content {
    /// Adds the next row.
    pub(super) fn add(&mut self, row: &str) {
        self.rows += 1;
        self.digest = Sha256Hex::of(format!("{}{row}", self.digest)).to_string();
    }
}

/// The values of a row, by the names of its columns: their order differs between databases.
pub(super) type Row = BTreeMap<String, Value>;

/// The types of columns, by their names.
pub(super) type Columns = BTreeMap<String, String>;

/// A value of a row, of the types that our tables have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn row_values(row: &AnyRow) -> Result<Row, sqlx::Error> {
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

impl Store {
    /// A row as the digest of a table has it.
    pub(super) fn row_text(&self, row: &Row) -> Result<String, StoreError> {
        serde_json::to_string(row)
            .map_err(|error| self.failure(format!("a row cannot be written as text: {error}")))
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

    /// The names of our tables, sorted by their bytes.
    pub(super) async fn tables(
        &self,
        connection: impl Executor<'_, Database = Any>,
    ) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(self.database_kind().own_tables()).fetch_all(connection).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let names: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        let mut names = names.map_err(|error| self.error(&error))?;
        names.sort();
        Ok(names)
    }

    /// The columns of a table and whether each is a number, text or bytes: a null needs a type.
    pub(super) async fn columns(
        &self,
        connection: impl Executor<'_, Database = Any>,
        table: &str,
    ) -> Result<Columns, StoreError> {
        let rows =
            sqlx::query(self.database_kind().columns()).bind(table).fetch_all(connection).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let read =
            |row: &AnyRow| Ok((row.try_get(0)?, row.try_get::<String, _>(1)?.to_uppercase()));
        rows.iter().map(|row| read(row).map_err(|error: sqlx::Error| self.error(&error))).collect()
    }

    /// The columns by which the rows of a table have the same order in every database: its key. A table without one has
    /// one row.
    pub(super) async fn row_order(
        &self,
        connection: &mut Connection,
        table: &str,
    ) -> Result<String, StoreError> {
        let key = sqlx::query(self.database_kind().primary_key()).bind(table);
        let key = key.fetch_all(&mut *connection).await.map_err(|error| self.error(&error))?;
        let key: Result<Vec<String>, _> = key.iter().map(|row| row.try_get(0)).collect();
        let key = key.map_err(|error| self.error(&error))?;
        if !key.is_empty() {
            return Ok(key.join(", "));
        }
        let columns = self.columns(connection, table).await?;
        Ok(columns.into_keys().collect::<Vec<_>>().join(", "))
    }

    pub(super) async fn insert_row(
        &self,
        connection: &mut Connection,
        table: &str,
        columns: &Columns,
        row: &Row,
    ) -> Result<(), StoreError> {
        let names: Vec<&str> = row.keys().map(String::as_str).collect();
        let places = self.database_kind().row_placeholders(1, 1, names.len());
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

    /// The whole content of a table.
    pub(super) async fn content(
        &self,
        connection: &mut Connection,
        table: &str,
    ) -> Result<Content, StoreError> {
        let order = self.row_order(connection, table).await?;
        let mut content = Content::default();
        let all = format!("SELECT * FROM {table} ORDER BY {order}");
        let mut rows = sqlx::query(sqlx::AssertSqlSafe(all)).fetch(connection);
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(&error))? {
            let row = row_values(&row).map_err(|error| self.error(&error))?;
            content.add(&self.row_text(&row)?);
        }
        Ok(content)
    }
}

impl DatabaseKind {
    /// Our tables, without the list of migrations and the progress of a copy.
    fn own_tables(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
                 AND name NOT IN ('_sqlx_migrations', 'unfinished_copy')"
            }
            Self::Postgres => {
                "SELECT CAST(table_name AS TEXT) FROM information_schema.tables WHERE table_schema \
                 = current_schema() AND table_type = 'BASE TABLE' AND table_name NOT IN \
                 ('_sqlx_migrations', 'unfinished_copy')"
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

    /// The columns of the primary key of a table, in their order.
    fn primary_key(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk",
            Self::Postgres => {
                "SELECT CAST(k.column_name AS TEXT) FROM information_schema.table_constraints c \
                 JOIN information_schema.key_column_usage k \
                 ON k.constraint_schema = c.constraint_schema \
                 AND k.constraint_name = c.constraint_name AND k.table_name = c.table_name \
                 WHERE c.constraint_type = 'PRIMARY KEY' AND c.table_schema = current_schema() \
                 AND c.table_name = $1 ORDER BY k.ordinal_position"
            }
        }
    }
}
