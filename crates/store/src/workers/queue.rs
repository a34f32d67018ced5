//! The queue of attempts: queued once, claimed by one worker after another, ended once.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::EngineEvent;
use bailiwick_fleet::workers::{
    ClaimedAttempt, Lease, QueuedAttempt, QueuedState, WorkerAttempt, WorkerRecord, satisfies,
};
use bailiwick_lifecycle::ports::StoreError;
use sqlx::Row as _;

use super::rows::columns;
use super::signed;
use crate::fleet::Sealed;
use crate::open::Store;
use crate::sql::{escaped, unescaped};

/// How often an attempt is claimed: again once, if its first worker disappears.
pub const MAX_CLAIMS: u64 = 2;

/// What came of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The queue has no such attempt.
    Unknown,
    /// No worker has it: it is stopped.
    Stopped,
    /// Its worker will be told; or it has ended.
    Noted,
}

impl Store {
    /// Queues an attempt; doing it again changes nothing.
    pub async fn queue_attempt(&self, attempt: &QueuedAttempt) -> Result<(), StoreError> {
        if self.queued_attempt(&attempt.agent).await?.is_some() {
            return Ok(());
        }
        let sealed = self.fleet.seal_launch(&attempt.agent, &attempt.launch).await;
        let sealed = sealed.map_err(|error| self.failure(error.to_string()))?;
        let now = self.engine().now();
        let mut write = self.begin_queue_write().await?;
        let add = format!(
            "INSERT INTO worker_attempts (agent, attempt, pool, labels, key_id, nonce, launch, state, \
             worker, fence, lease_until, queued_at, cancelled, events_before, last_event, report, \
             spent, answers, work, finish, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', '', \
             0, 0, {now}, 0, 0, 0, '', '', '', $8, '', '') ON CONFLICT DO NOTHING"
        );
        sqlx::query(sqlx::AssertSqlSafe(add))
            .bind(escaped(&attempt.agent))
            .bind(escaped(&attempt.attempt))
            .bind(escaped(&attempt.pool))
            .bind(escaped(&self.to_json(&attempt.labels)?))
            .bind(sealed.key_id)
            .bind(sealed.nonce)
            .bind(sealed.bytes)
            .bind(Vec::<u8>::new())
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// An attempt of the queue.
    pub async fn queued_attempt(&self, agent: &str) -> Result<Option<WorkerAttempt>, StoreError> {
        let find =
            format!("SELECT {} FROM worker_attempts WHERE agent = $1", columns(self.engine()));
        let row = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(agent));
        let row = row.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        row.map(|row| Ok(self.queue_row(&row)?.attempt)).transpose()
    }

    /// Claims the oldest attempt that a worker can run: one that nobody has, or whose worker has disappeared. A worker
    /// does not claim its own again, because it may still run it. If it has never reported on it, the answer to its
    /// claim was lost: it gets the same lease again.
    pub async fn claim_attempt(
        &self,
        worker: &WorkerRecord,
        lease_millis: u64,
    ) -> Result<Option<ClaimedAttempt>, StoreError> {
        let now = self.engine().now();
        let claimable = format!(
            "pool = $1 AND cancelled = 0 AND fence < $2 AND \
             (state = 'queued' OR (state = 'claimed' AND lease_until < {now} AND \
              (worker <> $3 OR report = '')))"
        );
        let wanted = format!("SELECT DISTINCT labels FROM worker_attempts WHERE {claimable}");
        let wanted = sqlx::query(sqlx::AssertSqlSafe(wanted))
            .bind(escaped(&worker.pool))
            .bind(signed(MAX_CLAIMS))
            .bind(escaped(&worker.name))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let mut suitable = Vec::new();
        for row in &wanted {
            let labels: String = row.try_get(0).map_err(|error| self.error(&error))?;
            let needed: BTreeMap<String, String> = self.parse_json(&unescaped(labels.clone()))?;
            if satisfies(&worker.labels, &needed) {
                suitable.push(labels);
            }
        }
        match suitable.is_empty() {
            true => Ok(None),
            false => self.claim_with(worker, &claimable, suitable, lease_millis).await,
        }
    }

    /// Claims the oldest attempt that needs one of these sets of labels.
    async fn claim_with(
        &self,
        worker: &WorkerRecord,
        claimable: &str,
        labels: Vec<String>,
        lease_millis: u64,
    ) -> Result<Option<ClaimedAttempt>, StoreError> {
        let (now, skip) = (self.engine().now(), self.engine().skip_locked_rows());
        let mut write = self.begin_queue_write().await?;
        // The row is locked by a query of its own: PostgreSQL may lock more than one in the sub-query of an update.
        let places: Vec<String> = (4..labels.len() + 4).map(|place| format!("${place}")).collect();
        let find = format!(
            "SELECT {}, key_id, nonce, launch FROM worker_attempts WHERE {claimable} AND labels IN ({}) \
             ORDER BY queued_at, agent LIMIT 1 {skip}",
            columns(self.engine()),
            places.join(", ")
        );
        let mut find = sqlx::query(sqlx::AssertSqlSafe(find))
            .bind(escaped(&worker.pool))
            .bind(signed(MAX_CLAIMS))
            .bind(escaped(&worker.name));
        for labels in labels {
            find = find.bind(labels);
        }
        let found = find.fetch_optional(&mut *write).await.map_err(|error| self.error(&error))?;
        let Some(found) = found else {
            write.rollback().await;
            return Ok(None);
        };
        let attempt = self.queue_row(&found)?.attempt;
        let read = || -> Result<Sealed, sqlx::Error> {
            let (key_id, nonce) = (found.try_get(18)?, found.try_get(19)?);
            Ok(Sealed { key_id, nonce, bytes: found.try_get(20)? })
        };
        let sealed = read().map_err(|error| self.error(&error))?;
        let opened = self.fleet.open_launch(&attempt.agent, sealed);
        let launch = opened.map_err(|error| self.failure(error.to_string()))?;
        let is_own = attempt.worker == worker.name;
        let fence = if is_own { attempt.fence } else { attempt.fence + 1 };
        let claim = format!(
            "UPDATE worker_attempts SET state = 'claimed', worker = $1, fence = $2, \
             lease_until = {now} + $3, events_before = last_event, report = '', answers = '', \
             spent = $4 WHERE agent = $5"
        );
        sqlx::query(sqlx::AssertSqlSafe(claim))
            .bind(escaped(&worker.name))
            .bind(signed(fence))
            .bind(signed(lease_millis))
            .bind(self.to_json(&attempt.cost())?)
            .bind(escaped(&attempt.agent))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(Some(ClaimedAttempt { lease: Lease { agent: attempt.agent, fence }, launch }))
    }

    /// Extends all leases: workers could not report while no server was running.
    pub async fn extend_worker_leases(&self, lease_millis: u64) -> Result<(), StoreError> {
        let now = self.engine().now();
        let mut write = self.begin_queue_write().await?;
        let extend = format!(
            "UPDATE worker_attempts SET lease_until = {now} + $1 WHERE state = 'claimed' AND \
             lease_until < {now} + $2"
        );
        let extend = sqlx::query(sqlx::AssertSqlSafe(extend))
            .bind(signed(lease_millis))
            .bind(signed(lease_millis))
            .execute(&mut *write);
        extend.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// Cancels an attempt.
    pub async fn cancel_attempt(&self, agent: &str) -> Result<CancelOutcome, StoreError> {
        let mut write = self.begin_queue_write().await?;
        // What it would have been launched with has secrets.
        let stop = "UPDATE worker_attempts SET state = 'stopped', cancelled = 1, launch = $1 \
                    WHERE agent = $2 AND state = 'queued'";
        let stop = sqlx::query(stop).bind(Vec::<u8>::new()).bind(escaped(agent));
        let stopped = stop.execute(&mut *write).await;
        let stopped = stopped.map_err(|error| self.error(&error))?.rows_affected();
        let note = "UPDATE worker_attempts SET cancelled = 1 WHERE agent = $1";
        let noted = sqlx::query(note).bind(escaped(agent)).execute(&mut *write).await;
        let noted = noted.map_err(|error| self.error(&error))?.rows_affected();
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(match (noted, stopped) {
            (0, _) => CancelOutcome::Unknown,
            (_, 0) => CancelOutcome::Noted,
            (_, _) => CancelOutcome::Stopped,
        })
    }

    /// Ends an attempt whose worker has disappeared; whether it had.
    pub async fn give_up_attempt(
        &self,
        attempt: &WorkerAttempt,
        state: QueuedState,
    ) -> Result<bool, StoreError> {
        let now = self.engine().now();
        let mut write = self.begin_queue_write().await?;
        let end = format!(
            "UPDATE worker_attempts SET state = $1, launch = $2 WHERE agent = $3 AND fence = $4 \
             AND state = 'claimed' AND lease_until < {now}"
        );
        let ended = sqlx::query(sqlx::AssertSqlSafe(end))
            .bind(state.as_str())
            .bind(Vec::<u8>::new())
            .bind(escaped(&attempt.agent))
            .bind(signed(attempt.fence))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(ended.rows_affected() > 0)
    }

    /// Records what the server found about the work of an attempt whose worker has ended it.
    pub async fn settle_attempt(
        &self,
        agent: &str,
        state: QueuedState,
        detail: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_queue_write().await?;
        let settle = "UPDATE worker_attempts SET state = $1, detail = $2, work = $3 \
                      WHERE agent = $4 AND state = 'finished'";
        sqlx::query(settle)
            .bind(state.as_str())
            .bind(escaped(detail))
            .bind(Vec::<u8>::new())
            .bind(escaped(agent))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// The bundle with the work of an attempt, until the server has settled it.
    pub async fn work_of_attempt(&self, agent: &str) -> Result<Vec<u8>, StoreError> {
        let row = sqlx::query("SELECT work FROM worker_attempts WHERE agent = $1");
        let row = row.bind(escaped(agent)).fetch_one(&self.pool).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| self.error(&error))
    }

    /// The events of an attempt after a number, in order.
    pub async fn worker_events(
        &self,
        agent: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EngineEvent>, StoreError> {
        let rows = sqlx::query(
            "SELECT event FROM worker_events WHERE agent = $1 AND number > $2 ORDER BY number LIMIT $3",
        )
        .bind(escaped(agent))
        .bind(signed(after))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        let read = |row: &sqlx::any::AnyRow| {
            let text: String = row.try_get(0).map_err(|error| self.error(&error))?;
            self.parse_json(&unescaped(text))
        };
        rows.iter().map(read).collect()
    }

    /// Forgets an attempt that has ended, with its events; and a cancelled one that no worker runs any more.
    pub async fn forget_attempt(&self, agent: &str) -> Result<(), StoreError> {
        let now = self.engine().now();
        let mut write = self.begin_queue_write().await?;
        let delete = format!(
            "DELETE FROM worker_attempts WHERE agent = $1 AND \
             (state NOT IN ('queued', 'claimed', 'finished') OR (cancelled = 1 AND \
              (state = 'finished' OR (state = 'claimed' AND lease_until < {now}))))"
        );
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete)).bind(escaped(agent));
        let deleted = delete.execute(&mut *write).await;
        if deleted.map_err(|error| self.error(&error))?.rows_affected() > 0 {
            let events = sqlx::query("DELETE FROM worker_events WHERE agent = $1");
            let done = events.bind(escaped(agent)).execute(&mut *write).await;
            done.map_err(|error| self.error(&error))?;
        }
        write.commit().await.map_err(|error| self.error(&error))
    }
}
