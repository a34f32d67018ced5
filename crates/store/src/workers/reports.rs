//! What the worker of a claim reports. A report with another fence than that of the last claim writes nothing.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::EngineEvent;
use bailiwick_fleet::workers::{
    FinishReport, Lease, LeaseError, MAX_ATTEMPT_EVENT_BYTES, ProgressAnswer, ProgressReport,
    QueuedState, ReportError,
};
use bailiwick_lifecycle::ports::StoreError;

use sqlx::Row as _;

use super::rows::{Row, StoredReport, columns};
use super::{MAX_CLAIMS, signed};
use crate::connections::WriteConnection;
use crate::fleet::Sealed;
use crate::open::Store;
use crate::sql::escaped;

/// How long an attempt that a worker could not begin is left to the others, in milliseconds.
const LEFT_TO_OTHERS: u64 = 300_000;
/// How far the number of an event may be from the one before. Workers do not report every event that they number.
const MAX_EVENT_GAP: u64 = 1_000_000;

impl Store {
    /// The attempt of a lease, locked until the transaction ends; `None` if the lease does not count.
    async fn leased(
        &self,
        write: &mut WriteConnection,
        worker: &str,
        lease: &Lease,
    ) -> Result<Option<Row>, StoreError> {
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE agent = $1 {}",
            columns(self.database_kind()),
            self.database_kind().lock_rows()
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(&lease.agent));
        let row = row.fetch_optional(&mut **write).await.map_err(|error| self.error(&error))?;
        let row = row.map(|row| self.queue_row(&row)).transpose()?;
        Ok(row.filter(|row| {
            row.attempt.state == QueuedState::Claimed
                && row.attempt.worker == worker
                && row.attempt.fence == lease.fence
        }))
    }

    /// What the attempt of a lease is launched with.
    pub async fn launch_of_lease(
        &self,
        worker: &str,
        lease: &Lease,
    ) -> Result<Result<Vec<u8>, LeaseError>, StoreError> {
        let read = sqlx::query(
            "SELECT key_id, nonce, launch FROM worker_attempts WHERE agent = $1 AND worker = $2 \
             AND fence = $3 AND state = 'claimed'",
        );
        let row = read
            .bind(escaped(&lease.agent))
            .bind(escaped(worker))
            .bind(signed(lease.fence))
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let Some(row) = row else { return Ok(Err(LeaseError)) };
        let sealed = || -> Result<Sealed, sqlx::Error> {
            let (key_id, nonce) = (row.try_get(0)?, row.try_get(1)?);
            Ok(Sealed { key_id, nonce, bytes: row.try_get(2)? })
        };
        let sealed = sealed().map_err(|error| self.error(&error))?;
        let opened = self.fleet.open_launch(&lease.agent, sealed);
        opened.map(Ok).map_err(|error| self.failure(error.to_string()))
    }

    /// Stores what a worker reports, and extends its lease. Events that are stored already are dropped.
    pub async fn report_attempt(
        &self,
        worker: &str,
        lease: &Lease,
        mut report: ProgressReport,
        lease_millis: u64,
    ) -> Result<Result<ProgressAnswer, ReportError>, StoreError> {
        if let Err(error) = report.require_few_events() {
            return Ok(Err(error));
        }
        report.limit();
        let events = std::mem::take(&mut report.events);
        let mut write = self.begin_queue_write().await?;
        let Some(row) = self.leased(&mut write, worker, lease).await? else {
            write.rollback().await;
            return Ok(Err(LeaseError.into()));
        };
        let Row { attempt, events_before, mut event_bytes, answers, is_check, .. } = row;
        if is_check && !events.is_empty() {
            write.rollback().await;
            return Ok(Err(ReportError::NotOfACheck));
        }
        let fresh = match numbered(events, events_before, attempt.last_event) {
            Ok(fresh) => fresh,
            Err(error) => {
                write.rollback().await;
                return Ok(Err(error));
            }
        };
        let last = fresh.last().map_or(attempt.last_event, |event| event.number);
        let has_events = !fresh.is_empty();
        for mut event in fresh {
            if event_bytes >= MAX_ATTEMPT_EVENT_BYTES {
                break;
            }
            event.limit();
            let bytes = u64::try_from(event.json_bytes()).unwrap_or(u64::MAX);
            event_bytes = event_bytes.saturating_add(bytes);
            if event_bytes >= MAX_ATTEMPT_EVENT_BYTES {
                event = event.into_last_of_too_many();
            }
            self.add_event(&mut write, &lease.agent, event).await?;
        }
        // An answer is repeated until its question is not open any more.
        let mut answers: BTreeMap<String, bool> = self.json_or_default(&answers)?;
        answers.retain(|question, _| report.questions.iter().any(|(open, _)| open == question));
        let store = format!(
            "UPDATE worker_attempts SET report = $1, answers = $2, last_event = $3, \
             lease_until = {} + $4 WHERE agent = $5",
            self.database_kind().now()
        );
        sqlx::query(sqlx::AssertSqlSafe(store))
            .bind(escaped(&self.to_json(&StoredReport { report: &report, event_bytes })?))
            .bind(escaped(&self.to_json(&answers)?))
            .bind(signed(last))
            .bind(signed(lease_millis))
            .bind(escaped(&lease.agent))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        if has_events {
            self.fleet.queue_signals.send_reported();
        }
        let stored = last.saturating_sub(events_before);
        Ok(Ok(ProgressAnswer { stored, cancel: attempt.is_cancelled, answers }))
    }

    /// Extends a lease.
    pub async fn keep_lease(
        &self,
        worker: &str,
        lease: &Lease,
        lease_millis: u64,
    ) -> Result<Result<(), LeaseError>, StoreError> {
        let now = self.database_kind().now();
        let mut write = self.begin_queue_write().await?;
        let extend = format!(
            "UPDATE worker_attempts SET lease_until = {now} + $1 WHERE agent = $2 AND worker = $3 \
             AND fence = $4 AND state = 'claimed'"
        );
        let extended = sqlx::query(sqlx::AssertSqlSafe(extend))
            .bind(signed(lease_millis))
            .bind(escaped(&lease.agent))
            .bind(escaped(worker))
            .bind(signed(lease.fence))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(if extended.rows_affected() > 0 { Ok(()) } else { Err(LeaseError) })
    }

    async fn add_event(
        &self,
        write: &mut WriteConnection,
        agent: &str,
        event: EngineEvent,
    ) -> Result<(), StoreError> {
        let add =
            sqlx::query("INSERT INTO worker_events (agent, number, event) VALUES ($1, $2, $3)")
                .bind(escaped(agent))
                .bind(signed(event.number))
                .bind(escaped(&self.to_json(&event)?))
                .execute(&mut **write);
        add.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Answers an open question of an attempt; whether it was open.
    pub async fn answer_attempt(
        &self,
        agent: &str,
        question: &str,
        yes: bool,
    ) -> Result<bool, StoreError> {
        let mut write = self.begin_queue_write().await?;
        let find = format!(
            "SELECT {} FROM worker_attempts WHERE agent = $1 {}",
            columns(self.database_kind()),
            self.database_kind().lock_rows()
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(find)).bind(escaped(agent));
        let row = row.fetch_optional(&mut *write).await.map_err(|error| self.error(&error))?;
        let row = row.map(|row| self.queue_row(&row)).transpose()?;
        let is_open = |row: &Row| {
            row.attempt.state == QueuedState::Claimed
                && row.attempt.report.questions.iter().any(|(open, _)| open == question)
        };
        let Some(row) = row.filter(is_open) else {
            write.rollback().await;
            return Ok(false);
        };
        let mut answers: BTreeMap<String, bool> = self.json_or_default(&row.answers)?;
        answers.insert(question.to_owned(), yes);
        let store = sqlx::query("UPDATE worker_attempts SET answers = $1 WHERE agent = $2")
            .bind(escaped(&self.to_json(&answers)?))
            .bind(escaped(agent))
            .execute(&mut *write);
        store.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(true)
    }

    /// Stores the work of an attempt, in place of what was sent before.
    pub async fn store_work(
        &self,
        worker: &str,
        lease: &Lease,
        bundle: Vec<u8>,
    ) -> Result<Result<(), ReportError>, StoreError> {
        let mut write = self.begin_queue_write().await?;
        let refusal: Option<ReportError> = match self.leased(&mut write, worker, lease).await? {
            None => Some(LeaseError.into()),
            Some(row) => row.is_check.then_some(ReportError::NotOfACheck),
        };
        if let Some(refusal) = refusal {
            write.rollback().await;
            return Ok(Err(refusal));
        }
        let store = sqlx::query("UPDATE worker_attempts SET work = $1 WHERE agent = $2")
            .bind(bundle)
            .bind(escaped(&lease.agent))
            .execute(&mut *write);
        store.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(Ok(()))
    }

    /// Stores the end of an attempt, or queues it again if its worker could not begin it. A worker that did not receive
    /// the answer may repeat it.
    pub async fn finish_attempt(
        &self,
        worker: &str,
        lease: &Lease,
        finish: &FinishReport,
    ) -> Result<Result<(), ReportError>, StoreError> {
        let finish = &finish.clone().limited();
        let mut write = self.begin_queue_write().await?;
        let Some(row) = self.leased(&mut write, worker, lease).await? else {
            write.rollback().await;
            let known = self.queued_attempt(&lease.agent).await?;
            let is_repeated = known.is_some_and(|known| {
                known.worker == worker
                    && known.fence == lease.fence
                    && (known.finish.as_ref() == Some(finish)
                        || (finish.not_begun && known.state == QueuedState::Queued))
            });
            return Ok(if is_repeated { Ok(()) } else { Err(LeaseError.into()) });
        };
        let refusal = match (row.is_check, &finish.evidence, &finish.work) {
            (true, _, Some(_)) => Some(ReportError::NotOfACheck),
            (false, Some(_), _) => Some(ReportError::NotOfAnAttempt),
            (true, _, None) | (false, None, _) => None,
        };
        if let Some(refusal) = refusal {
            write.rollback().await;
            return Ok(Err(refusal));
        }
        match finish.not_begun && may_be_queued_again(&row) {
            true => self.queue_again(&mut write, &lease.agent, &finish.detail).await?,
            false => self.end_attempt(&mut write, &lease.agent, finish).await?,
        }
        write.commit().await.map_err(|error| self.error(&error))?;
        self.fleet.queue_signals.send_finished();
        Ok(Ok(()))
    }

    async fn end_attempt(
        &self,
        write: &mut WriteConnection,
        agent: &str,
        finish: &FinishReport,
    ) -> Result<(), StoreError> {
        let store = "UPDATE worker_attempts SET state = 'finished', finish = $1, launch = $2 \
                     WHERE agent = $3";
        let stored = sqlx::query(store)
            .bind(escaped(&self.to_json(finish)?))
            .bind(Vec::<u8>::new())
            .bind(escaped(agent))
            .execute(&mut **write);
        stored.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Other workers can claim it at once, and the same one later: in a small pool there is no other.
    async fn queue_again(
        &self,
        write: &mut WriteConnection,
        agent: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        let queue = format!(
            "UPDATE worker_attempts SET state = 'queued', detail = $1, lease_until = {} + $2 \
             WHERE agent = $3",
            self.database_kind().now()
        );
        let queued = sqlx::query(sqlx::AssertSqlSafe(queue))
            .bind(escaped(why))
            .bind(signed(LEFT_TO_OTHERS))
            .bind(escaped(agent))
            .execute(&mut **write);
        queued.await.map(drop).map_err(|error| self.error(&error))
    }
}

/// Whether another worker can begin what this one could not. The server runs a check by itself.
fn may_be_queued_again(row: &Row) -> bool {
    !row.is_check
        && !row.attempt.is_cancelled
        && row.attempt.fence < MAX_CLAIMS
        && row.attempt.last_event == row.events_before
}

/// The events after `last`, with their numbers in the attempt. A worker numbers the events of its own claim.
fn numbered(
    events: Vec<EngineEvent>,
    events_before: u64,
    mut last: u64,
) -> Result<Vec<EngineEvent>, ReportError> {
    let mut fresh = Vec::new();
    for mut event in events {
        let number = event.number.saturating_add(events_before);
        if number <= last {
            continue;
        }
        if number - last > MAX_EVENT_GAP {
            return Err(ReportError::EventNumber { number, last });
        }
        event.number = number;
        if let Some(own) = event.body.get_mut("number") {
            *own = number.into();
        }
        fresh.push(event);
        last = number;
    }
    Ok(fresh)
}
