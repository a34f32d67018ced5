//! The queue of attempts: queued once, claimed by one worker after another (`claim`), ended once.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::EngineEvent;
use bailiwick_fleet::workers::{QueuedAttempt, QueuedCheck, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_resources::{ChecksOn, PodGrants};
use sqlx::Row as _;

use super::rows::columns;
use super::signed;
use crate::connections::WriteConnection;
use crate::open::Store;
use crate::sql::{DatabaseKind, escaped, unescaped};

/// How many events are deleted in one transaction, so that other writers do not wait long.
const FORGOTTEN_EVENTS: u64 = 1_000;

/// Where a row may run, and what it gets there.
struct QueuedPlace<'a> {
    labels: &'a BTreeMap<String, String>,
    checks_on: ChecksOn,
    /// The workers that count as having claimed it.
    claimed_by: &'a [String],
    pod_grants: &'a PodGrants,
}

/// Which attempts can be forgotten.
fn forgettable(database_kind: DatabaseKind) -> String {
    let now = database_kind.now();
    format!(
        "(state NOT IN ('queued', 'claimed', 'finished') OR (cancelled = 1 AND \
         (state = 'finished' OR (state = 'claimed' AND lease_until < {now}))))"
    )
}

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

/// How many ended jobs with the same key are read: each can have a large outcome.
const MAX_ENDED_CHECKS: i64 = 10;

impl Store {
    /// Queues an attempt; doing it again changes nothing.
    pub async fn queue_attempt(&self, attempt: &QueuedAttempt) -> Result<(), StoreError> {
        if self.queued_attempt(&attempt.agent).await?.is_some() {
            return Ok(());
        }
        let QueuedAttempt { agent, attempt, pool, labels, launch, checks_on, pod_grants } = attempt;
        let names = [agent.as_str(), attempt, pool, ""];
        let place = QueuedPlace { labels, checks_on: *checks_on, claimed_by: &[], pod_grants };
        self.add_to_queue(names, launch, &place).await.map(drop)
    }

    /// Queues a job of a check, if its attempt still waits for its checks; whether it does. Doing it again changes
    /// nothing.
    pub async fn queue_check(&self, check: &QueuedCheck) -> Result<bool, StoreError> {
        if self.queued_attempt(&check.name).await?.is_some() {
            return Ok(true);
        }
        let QueuedCheck { name, agent, key, pool, labels, not_by, launch } = check;
        let names = [name.as_str(), agent, pool, key];
        let place = QueuedPlace {
            labels,
            checks_on: ChecksOn::Server,
            claimed_by: not_by,
            pod_grants: &PodGrants::default(),
        };
        self.add_to_queue(names, launch, &place).await
    }

    /// Adds a row: its name, its attempt, its pool and the key of its check. False if it is for a check that nobody
    /// waits for.
    async fn add_to_queue(
        &self,
        [name, attempt, pool, key]: [&str; 4],
        launch: &[u8],
        place: &QueuedPlace<'_>,
    ) -> Result<bool, StoreError> {
        let QueuedPlace { labels, checks_on, claimed_by, pod_grants } = place;
        let sealed = self.fleet.seal_launch(name, launch).await;
        let sealed = sealed.map_err(|error| self.failure(error.to_string()))?;
        let now = self.database_kind().now();
        let mut write = self.begin_queue_write().await?;
        if !key.is_empty() && !self.lock_unchecked(&mut write, attempt).await? {
            write.rollback().await;
            return Ok(false);
        }
        let add = format!(
            "INSERT INTO worker_attempts (agent, attempt, pool, labels, key_id, nonce, launch, state, \
             worker, fence, lease_until, queued_at, cancelled, events_before, last_event, report, \
             spent, answers, work, finish, detail, check_key, checks_on, claimed_by, pod_grants) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', '', \
             0, 0, {now}, 0, 0, 0, '', '', '', $8, '', '', $9, $10, $11, $12) ON CONFLICT DO NOTHING"
        );
        sqlx::query(sqlx::AssertSqlSafe(add))
            .bind(escaped(name))
            .bind(escaped(attempt))
            .bind(escaped(pool))
            .bind(escaped(&self.to_json(labels)?))
            .bind(sealed.key_id)
            .bind(sealed.nonce)
            .bind(sealed.bytes)
            .bind(Vec::<u8>::new())
            .bind(escaped(key))
            .bind(self.to_json(checks_on)?)
            .bind(escaped(&self.to_json(claimed_by)?))
            .bind(escaped(&self.to_json(*pod_grants)?))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        self.fleet.queue_signals.send_queued();
        Ok(true)
    }

    /// Locks an attempt whose work waits for its checks, so that it is not cancelled meanwhile; whether there is one.
    async fn lock_unchecked(
        &self,
        write: &mut WriteConnection,
        agent: &str,
    ) -> Result<bool, StoreError> {
        let find = format!(
            "SELECT agent FROM worker_attempts WHERE agent = $1 AND state = 'finished' \
             AND cancelled = 0 {}",
            self.database_kind().lock_rows()
        );
        let find = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(agent));
        let found = find.fetch_optional(&mut **write).await.map_err(|error| self.error(&error))?;
        Ok(found.is_some())
    }

    /// An attempt of the queue.
    pub async fn queued_attempt(&self, agent: &str) -> Result<Option<WorkerAttempt>, StoreError> {
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE agent = $1",
            columns(self.database_kind())
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(agent));
        let row = row.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        row.map(|row| Ok(self.queue_row(&row)?.attempt)).transpose()
    }

    /// Extends all leases, and the credentials of the workers that have them: workers could neither report nor renew
    /// their credentials while no server was running.
    pub async fn extend_worker_leases(&self, lease_millis: u64) -> Result<(), StoreError> {
        let now = self.database_kind().now();
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
        self.extend_credentials(&mut write).await?;
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
        let now = self.database_kind().now();
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

    /// Records what the server found about the work of an attempt whose worker has ended it. A cancelled attempt is
    /// not checked any more.
    pub async fn settle_attempt(
        &self,
        agent: &str,
        state: QueuedState,
        detail: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_queue_write().await?;
        let is_checked = state == QueuedState::Checked;
        let condition = if is_checked { "AND cancelled = 0" } else { "" };
        let settle = format!(
            "UPDATE worker_attempts SET state = $1, detail = $2, work = $3 \
             WHERE agent = $4 AND state = 'finished' {condition}"
        );
        sqlx::query(sqlx::AssertSqlSafe(settle))
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

    /// Forgets an attempt that has ended, with its events; and a cancelled one that no worker runs any more. Interrupted,
    /// it is repeated: the attempt goes last.
    pub async fn forget_attempt(&self, agent: &str) -> Result<(), StoreError> {
        self.forget_events(agent).await?;
        let mut write = self.begin_queue_write().await?;
        let delete = format!(
            "DELETE FROM worker_attempts WHERE agent = $1 AND {}",
            forgettable(self.database_kind())
        );
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete)).bind(escaped(agent));
        let deleted = delete.execute(&mut *write).await;
        if deleted.map_err(|error| self.error(&error))?.rows_affected() > 0 {
            // An older version stored events of checks.
            let events = "DELETE FROM worker_events WHERE agent = $1 OR agent IN \
                          (SELECT agent FROM worker_attempts WHERE attempt = $2 AND check_key <> '')";
            let events = sqlx::query(events).bind(escaped(agent)).bind(escaped(agent));
            let done = events.execute(&mut *write).await;
            done.map_err(|error| self.error(&error))?;
            let checks = "DELETE FROM worker_attempts WHERE attempt = $1 AND check_key <> ''";
            let done = sqlx::query(checks).bind(escaped(agent)).execute(&mut *write).await;
            done.map_err(|error| self.error(&error))?;
        }
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// Deletes the events of an attempt that can be forgotten, in batches.
    async fn forget_events(&self, agent: &str) -> Result<(), StoreError> {
        let delete = format!(
            "DELETE FROM worker_events WHERE agent = $1 AND number IN \
             (SELECT number FROM worker_events WHERE agent = $2 ORDER BY number \
              LIMIT {FORGOTTEN_EVENTS}) AND EXISTS \
             (SELECT 1 FROM worker_attempts WHERE worker_attempts.agent = $3 AND {})",
            forgettable(self.database_kind())
        );
        loop {
            let mut write = self.begin_queue_write().await?;
            let batch = sqlx::query(sqlx::AssertSqlSafe(delete.clone()))
                .bind(escaped(agent))
                .bind(escaped(agent))
                .bind(escaped(agent))
                .execute(&mut *write);
            let deleted = batch.await.map_err(|error| self.error(&error))?.rows_affected();
            write.commit().await.map_err(|error| self.error(&error))?;
            if deleted < FORGOTTEN_EVENTS {
                return Ok(());
            }
        }
    }

    /// The jobs of checks of a pool that have ended, and that depend on the same tree and parameters: the one with the
    /// name `own` first, then the newest others. Jobs of workers that were removed do not count.
    pub async fn ended_checks(
        &self,
        pool: &str,
        key: &str,
        own: &str,
    ) -> Result<Vec<WorkerAttempt>, StoreError> {
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE check_key = $1 AND pool = $2 AND state = 'finished' \
             AND EXISTS (SELECT 1 FROM workers WHERE workers.name = worker_attempts.worker) \
             ORDER BY CASE WHEN agent = $3 THEN 0 ELSE 1 END, queued_at DESC, agent LIMIT $4",
            columns(self.database_kind())
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(find))
            .bind(escaped(key))
            .bind(escaped(pool))
            .bind(escaped(own))
            .bind(MAX_ENDED_CHECKS);
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| Ok(self.queue_row(row)?.attempt)).collect()
    }

    /// The jobs of checks of an attempt that have not ended.
    pub async fn open_checks(&self, agent: &str) -> Result<Vec<WorkerAttempt>, StoreError> {
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE attempt = $1 AND check_key <> '' \
             AND state IN ('queued', 'claimed') ORDER BY queued_at, agent",
            columns(self.database_kind())
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(agent));
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        rows.iter().map(|row| Ok(self.queue_row(row)?.attempt)).collect()
    }

    /// Cancels the jobs of checks of an attempt that have not ended.
    pub async fn cancel_checks(&self, agent: &str) -> Result<(), StoreError> {
        let mut write = self.begin_queue_write().await?;
        let cancel = "UPDATE worker_attempts SET cancelled = 1, \
                      state = CASE WHEN state = 'queued' THEN 'stopped' ELSE state END \
                      WHERE attempt = $1 AND check_key <> '' AND state IN ('queued', 'claimed')";
        let cancelled = sqlx::query(cancel).bind(escaped(agent)).execute(&mut *write).await;
        cancelled.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }
}
