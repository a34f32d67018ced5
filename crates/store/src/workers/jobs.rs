//! Attempts in Kubernetes Jobs: which there are, and what the operator records of their Jobs.

use bailiwick_fleet::workers::{JobRecord, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::run::RunStatus;
use sqlx::Row as _;

use super::rows::columns;
use super::signed;
use crate::open::Store;
use crate::sql::escaped;

impl Store {
    /// The attempts that have not ended and run in Jobs, the oldest first.
    pub async fn job_attempts(&self) -> Result<Vec<WorkerAttempt>, StoreError> {
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE state IN ('queued', 'claimed') \
             ORDER BY queued_at, agent",
            columns(self.database_kind())
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(find)).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.error(&error))?;
        let mut all = Vec::new();
        for row in &rows {
            all.push(self.queue_row(row)?.attempt);
        }
        all.retain(WorkerAttempt::is_job);
        Ok(all)
    }

    /// Whether this database knows that an attempt has ended. Of an attempt that it does not know, it cannot say so.
    pub async fn is_known_to_have_ended(&self, agent: &str) -> Result<bool, StoreError> {
        if let Some(attempt) = self.queued_attempt(agent).await? {
            return Ok(match attempt.state {
                QueuedState::Queued | QueuedState::Claimed => false,
                QueuedState::Finished
                | QueuedState::Checked
                | QueuedState::Refused
                | QueuedState::Lost
                | QueuedState::Stopped => true,
            });
        }
        // The server forgets an attempt that it has settled. Its ledger does not.
        let row = sqlx::query("SELECT status FROM runs WHERE id = $1").bind(escaped(agent));
        let row = row.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        let Some(row) = row else { return Ok(false) };
        let status: String = row.try_get(0).map_err(|error| self.error(&error))?;
        let mut ended = RunStatus::ALL.into_iter().filter(|known| *known != RunStatus::Running);
        Ok(ended.any(|known| known.as_str() == status))
    }

    /// Records what is wrong with the Job of an attempt; whether `ended` still was what the operator had read. So of two
    /// operators, one is too late.
    pub async fn record_job(
        &self,
        agent: &str,
        ended_before: u64,
        job: &JobRecord,
    ) -> Result<bool, StoreError> {
        let mut write = self.begin_queue_write().await?;
        let record = "UPDATE worker_attempts SET jobs_ended = $1, pod_problem = $2, job_detail = $3 \
                      WHERE agent = $4 AND jobs_ended = $5 AND state IN ('queued', 'claimed')";
        let recorded = sqlx::query(record)
            .bind(signed(job.ended))
            .bind(job.problem.map_or("", |problem| problem.as_str()))
            .bind(escaped(&job.detail))
            .bind(escaped(agent))
            .bind(signed(ended_before))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(recorded.rows_affected() > 0)
    }

    /// Ends an attempt whose Job cannot run it; whether it had not ended, and no worker runs it.
    pub async fn give_up_job(
        &self,
        agent: &str,
        ended_before: u64,
        job: &JobRecord,
    ) -> Result<bool, StoreError> {
        let now = self.database_kind().now();
        let mut write = self.begin_queue_write().await?;
        let end = format!(
            "UPDATE worker_attempts SET state = $1, launch = $2, jobs_ended = $3, pod_problem = $4, \
             job_detail = $5 \
             WHERE agent = $6 AND jobs_ended = $7 AND \
             (state = 'queued' OR (state = 'claimed' AND lease_until < {now}))"
        );
        let ended = sqlx::query(sqlx::AssertSqlSafe(end))
            .bind(QueuedState::Lost.as_str())
            .bind(Vec::<u8>::new())
            .bind(signed(job.ended))
            .bind(job.problem.map_or("", |problem| problem.as_str()))
            .bind(escaped(&job.detail))
            .bind(escaped(agent))
            .bind(signed(ended_before))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(ended.rows_affected() > 0)
    }
}
