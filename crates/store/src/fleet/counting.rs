//! Counts objects by a field, from the index alone.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::FleetError;
use bailiwick_resources::Kind;
use sqlx::Row as _;

use super::Fleet;
use super::terms::field;
use crate::sql::{escaped, unescaped};

/// An object that has both terms is not counted.
const COUNT: &str = "SELECT value, COUNT(*) FROM \
                     (SELECT MAX(CASE WHEN term = $1 THEN value END) AS value, COUNT(*) AS found \
                     FROM resource_terms WHERE term IN ($2, $3) GROUP BY born) AS objects \
                     WHERE found = 1 AND value IS NOT NULL GROUP BY value";

const COUNT_BOTH: &str = "SELECT COUNT(*) FROM resource_terms one WHERE one.term = $1 AND one.value = $2 \
                          AND EXISTS (SELECT 1 FROM resource_terms other WHERE other.term = $3 \
                          AND other.value = $4 AND other.born = one.born)";

impl Fleet {
    pub(crate) async fn count_both(
        &self,
        kind: Kind,
        first: (&str, &str),
        second: (&str, &str),
    ) -> Result<u64, FleetError> {
        let count = sqlx::query(COUNT_BOTH)
            .bind(field(kind, first.0))
            .bind(escaped(first.1))
            .bind(field(kind, second.0))
            .bind(escaped(second.1))
            .fetch_one(&self.pool)
            .await
            .and_then(|row| row.try_get::<i64, _>(0))
            .map_err(|error| self.database_error(&error))?;
        Ok(count.unsigned_abs())
    }

    pub(crate) async fn count_by(
        &self,
        kind: Kind,
        name: &str,
        without: &str,
    ) -> Result<BTreeMap<String, u64>, FleetError> {
        let term = field(kind, name);
        let rows = sqlx::query(COUNT)
            .bind(&term)
            .bind(&term)
            .bind(field(kind, without))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database_error(&error))?;
        let mut counts = BTreeMap::new();
        for row in &rows {
            let read = || Ok((row.try_get::<String, _>(0)?, row.try_get::<i64, _>(1)?));
            let (value, count) =
                read().map_err(|error: sqlx::Error| self.database_error(&error))?;
            counts.insert(unescaped(value), count.unsigned_abs());
        }
        Ok(counts)
    }
}
