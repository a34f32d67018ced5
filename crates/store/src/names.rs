//! Finds runs by name and by repository.

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::{AgentId, LedgerNote, Run};

use crate::open::Store;
use crate::runs::select_run;
use crate::sql::{now, storable};

impl Store {
    /// Runs with this name or id, oldest first.
    pub async fn runs_named(&self, name: &AgentId) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE name = $1 OR id = $2 ORDER BY started_at, id"))
            .bind(name.as_str())
            .bind(name.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// Runs without a known repository, oldest first.
    pub async fn without_repository(&self) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE repository IS NULL ORDER BY started_at, id"))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// Sets the repository of a run that has none. Does nothing if that repository has a run with the same
    /// name.
    pub async fn set_repository(&self, id: &AgentId, repository: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        sqlx::query(
            "UPDATE runs SET repository = $1 WHERE id = $2 AND repository IS NULL AND NOT EXISTS \
             (SELECT 1 FROM runs other WHERE other.repository = $3 AND other.name = runs.name)",
        )
        .bind(repository)
        .bind(id.as_str())
        .bind(repository)
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// Records that the landed work of a run was reverted.
    pub async fn roll_back(
        &self,
        id: &AgentId,
        summary: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        let updated =
            sqlx::query("UPDATE runs SET rolled_back_at = $1, summary = $2 WHERE id = $3")
                .bind(now())
                .bind(storable(summary).into_owned())
                .bind(id.as_str())
                .execute(&mut *transaction)
                .await
                .map_err(|error| self.error(&error))?;
        if updated.rows_affected() == 0 {
            transaction.rollback().await;
            return Err(self.no_such_run(id.as_str()).await);
        }
        self.append_event(&mut transaction, id.as_str(), LedgerNote::RolledBack.as_str(), detail)
            .await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }
}
