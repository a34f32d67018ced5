//! The audit log.

use bailiwick_fleet::ports::{AuditEntry, FleetError};
use bailiwick_resources::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::statements::{limit, placeholders, signed};
use super::transaction::WriteTransaction;
use crate::sql::{escaped, unescaped};

impl WriteTransaction<'_> {
    pub(super) async fn append_audit(&mut self, entry: &AuditEntry) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let statement = format!(
            "INSERT INTO audit (number, at, actor, event, subject, correlation, detail) VALUES \
             ((SELECT COALESCE(MAX(number), 0) + 1 FROM audit), {})",
            placeholders(1, 6)
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(signed(entry.at.millis()))
            .bind(escaped(&entry.actor))
            .bind(escaped(&entry.event))
            .bind(escaped(&entry.subject))
            .bind(fleet.json(&entry.correlation)?)
            .bind(fleet.json(&entry.detail)?)
            .execute(self.connection())
            .await
            .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}

impl Fleet {
    pub(crate) async fn forget_audit(
        &self,
        before: Moment,
        max: usize,
        fence: Option<i64>,
    ) -> Result<u64, FleetError> {
        let oldest = "SELECT number, at FROM audit ORDER BY number LIMIT $1";
        let count = limit(max).saturating_add(1);
        let mut transaction = self.begin_fenced_write(fence).await?;
        let rows = sqlx::query(oldest).bind(count).fetch_all(transaction.connection()).await;
        let rows = rows.map_err(|error| self.database_error(&error))?;
        let mut last = None;
        // The newest entry stays: without it, its number would be used again.
        for row in rows.iter().take(rows.len().saturating_sub(1)) {
            let read = || Ok((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
            let (number, at) = read().map_err(|error: sqlx::Error| self.database_error(&error))?;
            if at >= signed(before.millis()) {
                break;
            }
            last = Some(number);
        }
        let Some(last) = last else {
            transaction.rollback().await;
            return Ok(0);
        };
        let statement = "DELETE FROM audit WHERE number <= $1";
        let deleted = sqlx::query(statement).bind(last).execute(transaction.connection()).await;
        let deleted = deleted.map_err(|error| self.database_error(&error))?.rows_affected();
        transaction.commit().await?;
        Ok(deleted)
    }

    pub(crate) async fn audit(
        &self,
        after: u64,
        count: usize,
    ) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        let statement = "SELECT number, at, actor, event, subject, correlation, detail FROM audit \
                         WHERE number > $1 ORDER BY number LIMIT $2";
        let rows =
            sqlx::query(statement).bind(signed(after)).bind(limit(count)).fetch_all(&self.pool);
        let rows = rows.await.map_err(|error| self.database_error(&error))?;
        let read = |row: &AnyRow| -> Result<(u64, AuditEntry), Box<dyn std::error::Error>> {
            let entry = AuditEntry {
                at: Moment::from_millis(row.try_get::<i64, _>(1)?.unsigned_abs()),
                actor: unescaped(row.try_get(2)?),
                event: unescaped(row.try_get(3)?),
                subject: unescaped(row.try_get(4)?),
                correlation: serde_json::from_str(&row.try_get::<String, _>(5)?)?,
                detail: serde_json::from_str(&row.try_get::<String, _>(6)?)?,
            };
            Ok((row.try_get::<i64, _>(0)?.unsigned_abs(), entry))
        };
        let entry = |row| {
            read(row).map_err(|error| {
                self.unavailable(format!("an entry of the audit log cannot be read: {error}"))
            })
        };
        rows.iter().map(entry).collect()
    }
}
