//! The ledger: who was spawned from what, with which spec, at what cost.

use std::collections::BTreeSet;

use bailiwick_lifecycle::ports::{RunStore, StoreError};
use bailiwick_model::{AgentId, Run, RunStatus};
use serde::Serialize;
use sqlx::Row;

use crate::open::Store;
use crate::runs::select_run;

/// A hundredth of a dollar, in the ledger's finest unit.
const MICRO_PER_CENT: i64 = 1_000_000;

/// Something that happened to a run, or to the ledger itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The run; empty for the ledger itself.
    pub run: String,
    /// Its place in the order of that run, from one.
    pub number: i64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What kind of thing.
    pub kind: String,
    /// The rest.
    pub detail: String,
}

/// What a run cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Hundredths of a United States dollar.
    pub cents: u32,
    /// Who was paid.
    pub provider: String,
    /// For which model.
    pub model: String,
    /// Whether it takes the place of what was recorded, instead of being added.
    pub replace: bool,
}

impl Store {
    /// All runs, oldest first; those of one status if it is given.
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

    /// Runs whose identity begins with `prefix`, oldest first.
    pub async fn with_dna(&self, prefix: &str) -> Result<Vec<Run>, StoreError> {
        let indexed: String = prefix.chars().take(30).collect();
        // The first comparison is answered by the index; the second by what it leaves.
        let rows = sqlx::query(select_run!(
            "WHERE substr(dna, 1, 30) >= $1 AND substr(dna, 1, 30) < $2 \
             AND substr(dna, 1, $3) = $4 ORDER BY started_at, id"
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

    /// The run itself and all that descend from it, oldest first.
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

    /// The run itself and those that it descends from, nearest first.
    pub async fn ancestors(&self, id: &AgentId) -> Result<Vec<Run>, StoreError> {
        let mut line = vec![self.get(id).await?];
        let mut seen = BTreeSet::from([id.clone()]);
        let mut asked = 0;
        while let Some(run) = line.get(asked) {
            asked += 1;
            let Some(parent) = run.parent_branch.clone() else { continue };
            let query = select_run!("WHERE id = $1 OR branch = $2 ORDER BY started_at, id");
            let rows = sqlx::query(query).bind(&parent).bind(&parent).fetch_all(&self.pool).await;
            let parents = self.runs(&rows.map_err(|error| self.error(&error))?)?;
            line.extend(parents.into_iter().filter(|run| seen.insert(run.id.clone())));
        }
        Ok(line)
    }

    /// Runs that were forked from, or asked for by, the agent of this identity.
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
    pub async fn on_branch(&self, branch: &str) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(select_run!("WHERE branch = $1 ORDER BY started_at, id"))
            .bind(branch)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        self.runs(&rows)
    }

    /// The task.toml that is kept under this digest, or a beginning of it that only one has.
    pub async fn spec(&self, sha: &str) -> Result<Option<String>, StoreError> {
        let length = i64::try_from(sha.chars().count()).unwrap_or(i64::MAX);
        let rows = sqlx::query("SELECT task FROM specs WHERE substr(sha, 1, $1) = $2 LIMIT 2")
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

    /// Adds to what a run has cost, or sets it; gives the new sum in hundredths of a dollar.
    pub async fn record_cost(&self, id: &AgentId, cost: &Cost) -> Result<i64, StoreError> {
        let mut transaction = self.writing().await?;
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
            drop(transaction);
            return Err(self.no_such_run(id.as_str()).await);
        }
        let detail = format!("{} cents, {} {}", cost.cents, cost.provider, cost.model);
        self.append(&mut transaction, id.as_str(), "cost", &detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))?;
        Ok(self.find(id).await?.map_or(0, |run| run.cost_cents))
    }

    /// Writes an event of the ledger itself.
    pub async fn note(&self, kind: &str, detail: &str) -> Result<(), StoreError> {
        let mut transaction = self.writing().await?;
        self.append(&mut transaction, "", kind, detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// Writes an event of a run that is in the ledger.
    pub async fn note_of(&self, id: &AgentId, kind: &str, detail: &str) -> Result<(), StoreError> {
        self.get(id).await?;
        let mut transaction = self.writing().await?;
        self.append(&mut transaction, id.as_str(), kind, detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    /// What happened to a run, in order; to the ledger itself with an empty `run`.
    pub async fn events(&self, run: &str) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(
            "SELECT run, number, at, kind, detail FROM events WHERE run = $1 ORDER BY number",
        )
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
