//! Finding runs by the names that people use, and by their repository.

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::{AgentId, Run};

use crate::open::{Store, now};
use crate::runs::select_run;

impl Store {
    /// Every run with this name or this id, oldest first.
    pub async fn named(&self, name: &AgentId) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE name = $1 OR id = $2 ORDER BY started_at, id"))
            .bind(name.as_str())
            .bind(name.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// Runs whose repository is not known, oldest first.
    pub async fn without_repository(&self) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE repository IS NULL ORDER BY started_at, id"))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// Writes down the repository of a run that has none. Does nothing where that repository has another
    /// run of the same name.
    pub async fn set_repository(&self, id: &AgentId, repository: &str) -> Result<(), StoreError> {
        let mut transaction = self.writing().await?;
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

    /// Notes that what a run had landed was reverted: the event, its summary and its state.
    pub async fn roll_back(
        &self,
        id: &AgentId,
        summary: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        let mut transaction = self.writing().await?;
        let updated =
            sqlx::query("UPDATE runs SET rolled_back_at = $1, summary = $2 WHERE id = $3")
                .bind(now())
                .bind(summary)
                .bind(id.as_str())
                .execute(&mut *transaction)
                .await
                .map_err(|error| self.error(&error))?;
        if updated.rows_affected() == 0 {
            drop(transaction);
            return Err(self.no_such_run(id.as_str()).await);
        }
        self.append(&mut transaction, id.as_str(), "rolled-back", detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }
}
