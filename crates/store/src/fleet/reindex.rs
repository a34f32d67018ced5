//! Rebuilds the index if this program indexes other fields than the program that wrote the database.

use bailiwick_fleet::ports::{FleetError, indexed_fields};
use bailiwick_resources::Kind;
use sqlx::Row as _;

use super::Fleet;
use super::row::columns;
use super::terms::{DIGEST, terms};
use super::transaction::WriteTransaction;

/// How many objects are read at a time.
const BATCH_SIZE: i64 = 500;

/// A description of the fields that this program indexes.
fn indexed_field_list() -> String {
    let of_kind = |kind: &Kind| {
        let fields = indexed_fields(*kind).iter();
        fields.map(|(name, pointer)| format!("{kind}.{name}={pointer}\n")).collect::<String>()
    };
    Kind::ALL.iter().map(of_kind).chain([DIGEST.to_owned(), "escaped".to_owned()]).collect()
}

impl Fleet {
    /// Rebuilds the index if other fields were indexed.
    pub(crate) async fn check_index(&self) -> Result<(), FleetError> {
        let known = sqlx::query("SELECT fields FROM resource_index").fetch_one(&self.pool).await;
        let known: String =
            known.and_then(|row| row.try_get(0)).map_err(|error| self.database_error(&error))?;
        let wanted = indexed_field_list();
        if known == wanted {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        match transaction.rebuild_index(&wanted).await {
            Ok(()) => transaction.commit().await.map(drop),
            Err(error) => {
                transaction.abort(&error).await;
                Err(error)
            }
        }
    }
}

impl WriteTransaction<'_> {
    async fn rebuild_index(&mut self, fields: &str) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let deleted = sqlx::query("DELETE FROM resource_terms").execute(self.connection()).await;
        deleted.map_err(|error| fleet.database_error(&error))?;
        let mut after = 0;
        loop {
            let statement = format!(
                "SELECT kind, {} FROM resources r WHERE born > $1 ORDER BY born LIMIT $2",
                columns("r")
            );
            let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(after).bind(BATCH_SIZE);
            let rows = query.fetch_all(self.connection()).await;
            let rows = rows.map_err(|error| fleet.database_error(&error))?;
            let mut found = Vec::new();
            for row in &rows {
                let read = || Ok((row.try_get(1)?, row.try_get(0)?));
                let (born, word): (i64, String) =
                    read().map_err(|error: sqlx::Error| fleet.database_error(&error))?;
                let kind = Kind::ALL.iter().find(|kind| kind.as_str() == word);
                let kind =
                    kind.ok_or_else(|| fleet.unavailable(format!("`{word}` is not a kind")))?;
                let stored = fleet.stored(*kind, row, 1)?;
                found.extend(
                    terms(&stored.object).into_iter().map(|term| (term, stored.created_version)),
                );
                after = born;
            }
            if rows.is_empty() {
                break;
            }
            self.index(&found).await?;
        }
        let statement = "UPDATE resource_index SET fields = $1";
        let done = sqlx::query(statement).bind(fields).execute(self.connection()).await;
        done.map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}
