//! The ledger: which run was spawned from which, with which spec, at what cost.

use std::collections::BTreeSet;

use bailiwick_lifecycle::ports::{RunStore, StoreError};
use bailiwick_model::{AgentId, LedgerNote, Run, RunStatus};
use serde::Serialize;
use sqlx::Row;

use crate::open::Store;
use crate::runs::select_run;

/// The ledger counts micro-cents.
const MICRO_PER_CENT: i64 = 1_000_000;

/// Something that happened to a run, or to the ledger itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The id of the run; empty for the ledger itself.
    pub run: String,
    /// The number of the event within its run, from 1.
    pub number: i64,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    pub kind: String,
    pub detail: String,
}

impl Event {
    /// Whether it is a note of this kind.
    pub fn is(&self, note: LedgerNote) -> bool {
        self.kind == note.as_str()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// US cents.
    pub cents: u32,
    pub provider: String,
    pub model: String,
    /// Whether it replaces the recorded cost instead of being added to it.
    pub replace: bool,
}

impl Store {
    /// All runs, or those with a status, oldest first.
    pub async fn list(&self, status: Option<RunStatus>) -> Result<Vec<Run>, StoreError> {
        let rows = match status {
            Some(status) => {
                sqlx::query(select_run!("WHERE status = $1 ORDER BY started_at, id"))
                    .bind(status.as_str())
                    .fetch_all(&self.pool)
                    .await
            }
            None => sqlx::query(select_run!("ORDER BY started_at, id")).fetch_all(&self.pool).await,
        };
        self.runs(&rows.map_err(|error| self.error(&error))?)
    }

    /// Runs whose DNA starts with `prefix`, oldest first.
    pub async fn find_by_dna_prefix(&self, prefix: &str) -> Result<Vec<Run>, StoreError> {
        let indexed: String = prefix.chars().take(30).collect();
        // The index answers the first comparison; the second filters its result.
        let rows = sqlx::query(select_run!(
            "WHERE substr(dna, 1, 30) >= $1 AND substr(dna, 1, 30) < $2 \
             AND substr(dna, 1, CAST($3 AS INTEGER)) = $4 ORDER BY started_at, id"
        ))
        .bind(&indexed)
        .bind(format!("{indexed}\u{10ffff}"))
        .bind(i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX))
        .bind(prefix)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// The run and all its descendants, oldest first.
    pub async fn descendants(&self, id: &AgentId) -> Result<Vec<Run>, StoreError> {
        self.get(id).await?;
        let rows = sqlx::query(select_run!(
            "WHERE id IN (WITH RECURSIVE below(id, branch) AS ( \
             SELECT id, branch FROM runs WHERE id = $1 UNION \
             SELECT child.id, child.branch FROM below JOIN runs child \
             ON child.parent = below.id OR child.parent = below.branch) \
             SELECT id FROM below) ORDER BY started_at, id"
        ))
        .bind(id.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// The run and all its ancestors, nearest first.
    pub async fn ancestors(&self, id: &AgentId) -> Result<Vec<Run>, StoreError> {
        let mut line = vec![self.get(id).await?];
        let mut seen = BTreeSet::from([id.clone()]);
        let mut next = 0;
        while let Some(run) = line.get(next) {
            next += 1;
            let Some(parent) = run.parent_branch.clone() else { continue };
            let query = select_run!("WHERE id = $1 OR branch = $2 ORDER BY started_at, id");
            let rows = sqlx::query(query).bind(&parent).bind(&parent).fetch_all(&self.pool).await;
            let parents = self.runs(&rows.map_err(|error| self.error(&error))?)?;
            line.extend(parents.into_iter().filter(|run| seen.insert(run.id.clone())));
        }
        Ok(line)
    }

    /// Runs that the agent with this DNA created, or that were forked from it.
    pub async fn forked_or_created_by(&self, dna: &str) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!(
            "WHERE fork_parent = $1 OR creator = $2 ORDER BY started_at, id"
        ))
        .bind(dna)
        .bind(dna)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// The runs of a branch, oldest first.
    pub async fn runs_on_branch(&self, branch: &str) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE branch = $1 ORDER BY started_at, id"))
            .bind(branch)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// The task.toml with this digest, or with a unique prefix of it.
    pub async fn spec(&self, sha: &str) -> Result<Option<String>, StoreError> {
        let length = i64::try_from(sha.chars().count()).unwrap_or(i64::MAX);
        let rows = sqlx::query(
            "SELECT task FROM specs WHERE substr(sha, 1, CAST($1 AS INTEGER)) = $2 LIMIT 2",
        )
        .bind(length)
        .bind(sha)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        match rows.as_slice() {
            [only] => only.try_get(0).map(Some).map_err(|error| self.error(&error)),
            _ => Ok(None),
        }
    }

    /// Adds to the cost of a run, or replaces it; returns the new sum in cents.
    pub async fn record_cost(&self, id: &AgentId, cost: &Cost) -> Result<i64, StoreError> {
        let mut transaction = self.begin_write().await?;
        let updated = sqlx::query(
            "UPDATE runs SET cost_micro_cents = cost_micro_cents * $1 + $2, provider = $3, \
             model = $4 WHERE id = $5",
        )
        .bind(i64::from(!cost.replace))
        .bind(i64::from(cost.cents) * MICRO_PER_CENT)
        .bind(&cost.provider)
        .bind(&cost.model)
        .bind(id.as_str())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        if updated.rows_affected() == 0 {
            transaction.rollback().await;
            return Err(self.no_such_run(id.as_str()).await);
        }
        let detail = format!("{} cents, {} {}", cost.cents, cost.provider, cost.model);
        self.append_event(&mut transaction, id.as_str(), "cost", &detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))?;
        Ok(self.find(id).await?.map_or(0, |run| run.cost_cents))
    }

    /// Appends an event of the ledger itself.
    pub async fn append_ledger_note(&self, kind: &str, detail: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        self.append_event(&mut transaction, "", kind, detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// Appends an event of a run in the ledger, which is not in its event stream.
    pub async fn append_run_note(
        &self,
        id: &AgentId,
        note: LedgerNote,
        detail: &str,
    ) -> Result<(), StoreError> {
        self.get(id).await?;
        let mut transaction = self.begin_write().await?;
        self.append_event(&mut transaction, id.as_str(), note.as_str(), detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// The events of a run in order; those of the ledger itself if `run` is empty.
    pub async fn events(&self, run: &str) -> Result<Vec<Event>, StoreError> {
        self.events_by(
            "SELECT run, number, at, kind, detail FROM events WHERE run = $1 ORDER BY number",
            run,
        )
        .await
    }

    /// What the ledger noted about a run, without the events of its agents, of which there can be very many.
    pub async fn notes(&self, run: &AgentId) -> Result<Vec<Event>, StoreError> {
        self.events_by(
            "SELECT run, number, at, kind, detail FROM events WHERE run = $1 AND listed = 0 \
             ORDER BY number",
            run.as_str(),
        )
        .await
    }

    async fn events_by(&self, query: &'static str, run: &str) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(query)
            .bind(run)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let event = |row: &sqlx::any::AnyRow| -> Result<Event, sqlx::Error> {
            Ok(Event {
                run: row.try_get(0)?,
                number: row.try_get(1)?,
                at: row.try_get(2)?,
                kind: row.try_get(3)?,
                detail: row.try_get(4)?,
            })
        };
        rows.iter().map(event).collect::<Result<_, _>>().map_err(|error| self.error(&error))
    }
}
