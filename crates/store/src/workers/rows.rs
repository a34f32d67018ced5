//! How a row of the queue is read.

use bailiwick_fleet::workers::{JobRecord, ProgressReport, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_resources::PodProblem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::open::Store;
use crate::sql::{DatabaseKind, unescaped};

/// The number of columns that `columns` names.
pub(super) const COLUMN_COUNT: usize = 23;

/// The columns of an attempt without its launch and its work.
pub(super) fn columns(database_kind: DatabaseKind) -> String {
    let now = database_kind.now();
    format!(
        "agent, pool, labels, state, worker, fence, cancelled, events_before, last_event, report, spent, answers, \
         finish, detail, CAST(CASE WHEN lease_until < {now} THEN 1 ELSE 0 END AS BIGINT), check_key, checks_on, \
         claimed_by, jobs_ended, pod_problem, job_detail, \
         CAST({now} - queued_at AS BIGINT), pod_grants"
    )
}

/// An attempt, and what only reports need of it.
pub(super) struct Row {
    pub(super) attempt: WorkerAttempt,
    pub(super) events_before: u64,
    /// What the events that the worker of the last claim has reported take as JSON.
    pub(super) event_bytes: u64,
    pub(super) answers: String,
    /// Whether the worker of the last claim has reported.
    pub(super) is_reported: bool,
    pub(super) is_check: bool,
}

/// The last report as it is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredReport<'a> {
    #[serde(flatten)]
    pub(super) report: &'a ProgressReport,
    pub(super) event_bytes: u64,
}

/// What only the stored form of a report has. An older version did not write it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredTotals {
    event_bytes: u64,
}

impl Store {
    pub(super) fn queue_row(&self, row: &AnyRow) -> Result<Row, StoreError> {
        let text = |column: usize| {
            let read = row.try_get::<String, _>(column).map(unescaped);
            read.map_err(|error| self.error(&error))
        };
        let number = |column: usize| {
            let read = row.try_get::<i64, _>(column).map(i64::unsigned_abs);
            read.map_err(|error| self.error(&error))
        };
        let state = text(3)?;
        let known = QueuedState::ALL.into_iter().find(|known| known.as_str() == state);
        let state = known.ok_or_else(|| {
            self.failure(format!("an attempt has the state `{state}`, which is not known here"))
        })?;
        let problem = text(19)?;
        let attempt = WorkerAttempt {
            agent: text(0)?,
            pool: text(1)?,
            labels: self.parse_json(&text(2)?)?,
            state,
            worker: text(4)?,
            fence: number(5)?,
            is_cancelled: number(6)? != 0,
            last_event: number(8)?,
            report: self.json_or_default(&text(9)?)?,
            spent: self.json_or_default(&text(10)?)?,
            finish: self.json_or_default(&text(12)?)?,
            detail: text(13)?,
            is_expired: number(14)? != 0,
            checks_on: self.json_or_default(&text(16)?)?,
            claimed_by: self.json_or_default(&text(17)?)?,
            queued_millis: number(21)?,
            job: JobRecord {
                ended: number(18)?,
                problem: PodProblem::ALL.into_iter().find(|known| known.as_str() == problem),
                detail: text(20)?,
            },
            pod_grants: self.json_or_default(&text(22)?)?,
        };
        let totals: StoredTotals = self.json_or_default(&text(9)?)?;
        Ok(Row {
            attempt,
            event_bytes: totals.event_bytes,
            events_before: number(7)?,
            answers: text(11)?,
            is_reported: !text(9)?.is_empty(),
            is_check: !text(15)?.is_empty(),
        })
    }

    /// What an empty text stands for, or its JSON.
    pub(super) fn json_or_default<T: DeserializeOwned + Default>(
        &self,
        text: &str,
    ) -> Result<T, StoreError> {
        if text.is_empty() { Ok(T::default()) } else { self.parse_json(text) }
    }
}
