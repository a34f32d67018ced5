//! The filters of lists of runs that people have saved.

use bailiwick_fleet::ports::{FleetError, SavedFilter};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::transaction::WriteTransaction;
use crate::sql::{escaped, unescaped};

impl WriteTransaction<'_> {
    /// Inserts or replaces a filter.
    pub(super) async fn put_filter(&mut self, filter: &SavedFilter) -> Result<(), FleetError> {
        let fleet = self.fleet;
        sqlx::query(
            "INSERT INTO saved_filters (owner, name, query) VALUES ($1, $2, $3) \
             ON CONFLICT (owner, name) DO UPDATE SET query = excluded.query",
        )
        .bind(escaped(&filter.owner))
        .bind(escaped(&filter.name))
        .bind(escaped(&filter.query))
        .execute(self.connection())
        .await
        .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }

    /// Deletes a filter; one that is not there is no error.
    pub(super) async fn delete_filter(
        &mut self,
        owner: &str,
        name: &str,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        sqlx::query("DELETE FROM saved_filters WHERE owner = $1 AND name = $2")
            .bind(escaped(owner))
            .bind(escaped(name))
            .execute(self.connection())
            .await
            .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}

impl Fleet {
    pub(crate) async fn saved_filters(&self, owner: &str) -> Result<Vec<SavedFilter>, FleetError> {
        let statement =
            "SELECT owner, name, query FROM saved_filters WHERE owner = $1 ORDER BY name";
        let rows = sqlx::query(statement).bind(escaped(owner)).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.database_error(&error))?;
        let parse = |row: &AnyRow| -> Result<SavedFilter, sqlx::Error> {
            Ok(SavedFilter {
                owner: unescaped(row.try_get(0)?),
                name: unescaped(row.try_get(1)?),
                query: unescaped(row.try_get(2)?),
            })
        };
        rows.iter().map(|row| parse(row).map_err(|error| self.database_error(&error))).collect()
    }
}
