//! Delegated runs.

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::{AgentId, Delegate};
use sqlx::Row;

use crate::open::Store;

impl Store {
    /// Inserts or replaces the state of a delegated run.
    pub async fn save_delegate(&self, delegate: &Delegate) -> Result<(), StoreError> {
        let detail = serde_json::to_string(delegate).unwrap_or_default();
        let mut transaction = self.begin_write().await?;
        sqlx::query(
            "INSERT INTO delegates (run, parent, closed, created_at, detail) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run) DO UPDATE SET \
             parent = excluded.parent, closed = excluded.closed, detail = excluded.detail",
        )
        .bind(delegate.run.as_str())
        .bind(delegate.parent.as_ref().map(AgentId::as_str))
        .bind(i64::from(delegate.closed))
        .bind(i64::try_from(delegate.created_at).unwrap_or(i64::MAX))
        .bind(detail)
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    pub async fn delegate(&self, run: &AgentId) -> Result<Option<Delegate>, StoreError> {
        let row = sqlx::query("SELECT detail FROM delegates WHERE run = $1")
            .bind(run.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        row.map(|row| self.parse_delegate(row.try_get("detail"))).transpose()
    }

    /// All delegated runs, in the order of their start.
    pub async fn delegates(&self) -> Result<Vec<Delegate>, StoreError> {
        let rows = sqlx::query("SELECT detail FROM delegates ORDER BY created_at, run")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        rows.into_iter().map(|row| self.parse_delegate(row.try_get("detail"))).collect()
    }

    fn parse_delegate(&self, detail: Result<String, sqlx::Error>) -> Result<Delegate, StoreError> {
        let detail = detail.map_err(|error| self.error(&error))?;
        serde_json::from_str(&detail).map_err(|error| StoreError::Database {
            database: self.location.to_string(),
            why: format!("a delegated run cannot be read: {error}"),
        })
    }
}
