//! Pages of runs, the newest first: a page costs the same however many runs there are.

use bailiwick_lifecycle::ports::{RunStore as _, StoreError};
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Run, RunStatus};
use sqlx::Row as _;

use crate::dispatched_runs::is_settled;
use crate::open::Store;
use crate::sql::quoted;

/// Which runs a page has.
#[derive(Debug, Clone, Copy)]
pub struct RunPage<'a> {
    /// Only these statuses; every one if there is none.
    pub statuses: &'a [RunStatus],
    /// Of the failed runs, only those with an attempt that ended so; every one if there is none.
    pub failed_by: &'a [ExitReason],
    /// Whether runs that the control plane has settled are left out.
    pub is_unsettled: bool,
    /// The position after which the page starts.
    pub after: Option<RunPosition<'a>>,
    pub limit: u32,
}

/// The position of a run: by its start in milliseconds, the newest first, then by its ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPosition<'a> {
    pub started_at: i64,
    pub id: &'a str,
}

/// The runs of a page.
#[derive(Debug, Clone)]
pub struct RunPageRead {
    /// Each with its start in milliseconds. They can be fewer than the limit: a run can be unreadable or be removed
    /// meanwhile.
    pub runs: Vec<(i64, Run)>,
    /// The position of the last row, after which the next page starts.
    pub last: Option<(i64, String)>,
    /// Whether there is no later page.
    pub is_end: bool,
}

impl Store {
    /// Reads a page of runs.
    pub async fn run_page(&self, page: RunPage<'_>) -> Result<RunPageRead, StoreError> {
        let statuses = quoted(page.statuses.iter().map(|status| status.as_str()));
        let endings = quoted(page.failed_by.iter().map(|ending| ending.as_str()));
        let mut only = String::new();
        if !page.statuses.is_empty() {
            only += &format!("status IN ({statuses}) AND ");
        }
        if !page.failed_by.is_empty() {
            only += &format!(
                "(status <> 'failed' OR EXISTS (SELECT 1 FROM attempts WHERE run = runs.id \
                 AND ending IN ({endings}))) AND "
            );
        }
        if page.is_unsettled {
            only += &format!("NOT ({}) AND ", is_settled());
        }
        // The first comparison uses the index; the second one decides between runs of the same millisecond.
        let query = format!(
            "SELECT id, started_at FROM runs WHERE {only}started_at <= $1 \
             AND (started_at < $2 OR id > $3) ORDER BY started_at DESC, id LIMIT $4"
        );
        let after = page.after.unwrap_or(RunPosition { started_at: i64::MAX, id: "" });
        let rows = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(after.started_at)
            .bind(after.started_at)
            .bind(after.id)
            .bind(i64::from(page.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let is_end = rows.len() < usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut runs = Vec::with_capacity(rows.len());
        let mut last = None;
        for row in rows {
            let key =
                || -> Result<(String, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
            let (id, started_at) = key().map_err(|error| self.error(&error))?;
            last = Some((started_at, id.clone()));
            let Ok(id) = AgentId::parse(&id) else { continue };
            // A run that was removed meanwhile is not on the page.
            if let Some(run) = self.find(&id).await? {
                runs.push((started_at, run));
            }
        }
        Ok(RunPageRead { runs, last, is_end })
    }

    /// How many runs there are.
    pub async fn count_runs(&self) -> Result<u64, StoreError> {
        let row = sqlx::query("SELECT COUNT(*) FROM runs")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let count: i64 = row.try_get(0).map_err(|error| self.error(&error))?;
        Ok(count.unsigned_abs())
    }
}

/// How many runs are closed: nothing more happens to them by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedRuns {
    /// Their work has landed.
    pub landed: u64,
    /// They failed or were rejected, or their work was reverted.
    pub failed: u64,
}

impl Store {
    /// Counts the runs that are closed.
    pub async fn count_closed_runs(&self) -> Result<ClosedRuns, StoreError> {
        let rows = sqlx::query(
            "SELECT status, COUNT(*), COUNT(rolled_back_at) FROM runs \
             WHERE status IN ('failed', 'merged', 'rejected') GROUP BY status",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let mut closed = ClosedRuns::default();
        for row in rows {
            let read = || -> Result<(String, i64, i64), sqlx::Error> {
                Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
            };
            let (status, count, reverted) = read().map_err(|error| self.error(&error))?;
            let (count, reverted) = (count.unsigned_abs(), reverted.unsigned_abs());
            let landed = match status == RunStatus::Merged.as_str() {
                true => count.saturating_sub(reverted),
                false => 0,
            };
            closed.landed += landed;
            closed.failed += count - landed;
        }
        Ok(closed)
    }
}
