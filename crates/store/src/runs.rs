//! Records runs and changes their status.

use bailiwick_lifecycle::ports::{NewRun, RunStore, StoreError};
use bailiwick_model::claim::ClaimOutcome;
use bailiwick_model::nearest::nearest;
use bailiwick_model::{AgentId, Run, RunFacts, RunName, RunState, RunStatus};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::connections::WriteConnection;
use crate::open::Store;
use crate::sql::{now, storable};

macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT id, branch, parent, spec_sha, status, started_at / 1000, finished_at / 1000, ",
            "summary, worktree, dna, creator, fork_parent, ",
            "(cost_micro_cents + 500000) / 1000000, provider, model, half_spawned, base, name, ",
            "repository, rolled_back_at, ",
            "(SELECT COUNT(*) FROM attempts WHERE attempts.run = runs.id) FROM runs ",
            $rest
        )
    };
}
pub(crate) use select_run;

impl Store {
    pub(crate) fn run(&self, row: &AnyRow) -> Result<Run, StoreError> {
        let read = || -> Result<Run, Box<dyn std::error::Error>> {
            let half_spawned = row.try_get::<i64, _>(15)? != 0;
            let status = row.try_get::<String, _>(4)?.parse()?;
            let base: Option<String> = row.try_get(16)?;
            let facts = RunFacts {
                half_spawned,
                spawned: base.is_some(),
                rolled_back: row.try_get::<Option<i64>, _>(19)?.is_some(),
                attempts: row.try_get(20)?,
            };
            Ok(Run {
                id: AgentId::parse(&row.try_get::<String, _>(0)?)?,
                branch: row.try_get(1)?,
                parent_branch: row.try_get(2)?,
                spec_sha: row.try_get(3)?,
                status,
                started_ts: row.try_get(5)?,
                finished_ts: row.try_get(6)?,
                summary: row.try_get(7)?,
                worktree_path: row.try_get(8)?,
                dna: row.try_get(9)?,
                creator_id: row.try_get(10)?,
                fork_parent_id: row.try_get(11)?,
                cost_cents: row.try_get(12)?,
                provider: row.try_get(13)?,
                model: row.try_get(14)?,
                half_spawned,
                base,
                name: AgentId::parse(&row.try_get::<String, _>(17)?)?,
                repository: row.try_get(18)?,
                state: RunState::of(status, facts),
            })
        };
        read().map_err(|error| StoreError::Database {
            database: self.location.to_string(),
            why: format!("a row of the ledger cannot be read: {error}"),
        })
    }

    pub(crate) fn runs(&self, rows: &[AnyRow]) -> Result<Vec<Run>, StoreError> {
        rows.iter().map(|row| self.run(row)).collect()
    }

    /// The run with this id, or an error that names the nearest id.
    pub async fn get(&self, id: &AgentId) -> Result<Run, StoreError> {
        match self.find(id).await? {
            Some(run) => Ok(run),
            None => Err(self.no_such_run(id.as_str()).await),
        }
    }

    pub(crate) async fn no_such_run(&self, id: &str) -> StoreError {
        let recent = "SELECT id FROM runs ORDER BY started_at DESC LIMIT 1000";
        let rows = sqlx::query(recent).fetch_all(&self.pool).await.unwrap_or_default();
        let ids: Vec<String> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let near = nearest(id, ids.iter().map(String::as_str)).map(str::to_owned);
        StoreError::NoSuchRun { id: id.to_owned(), near }
    }

    /// Appends an event to a run, or to the ledger itself if `run` is empty.
    pub(crate) async fn append_event(
        &self,
        transaction: &mut WriteConnection,
        run: &str,
        kind: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO events (run, number, at, kind, detail) VALUES \
             ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM events WHERE run = $2), $3, $4, $5)",
        )
        .bind(run)
        .bind(run)
        .bind(now())
        .bind(kind)
        .bind(storable(detail).into_owned())
        .execute(&mut **transaction)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(())
    }

    async fn insert(
        &self,
        transaction: &mut WriteConnection,
        run: &NewRun,
        spec: Option<&str>,
    ) -> Result<(), StoreError> {
        if let Some(named) = &run.named {
            self.require_free_name(transaction, named).await?;
        }
        sqlx::query(
            "INSERT INTO runs (id, branch, parent, spec_sha, status, started_at, worktree, dna, \
             creator, fork_parent, half_spawned, base, name, repository) \
             VALUES ($1, $2, $3, $4, 'running', $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .bind(run.id.as_str())
        .bind(&run.branch)
        .bind(run.parent.as_deref())
        .bind(&run.spec_sha)
        .bind(now())
        .bind(run.worktree.as_deref())
        .bind(run.dna.as_deref())
        .bind(run.creator.as_deref())
        .bind(run.fork_parent.as_deref())
        .bind(i64::from(run.half_spawned))
        .bind(run.base.as_deref())
        .bind(run.named.as_ref().map_or(run.id.as_str(), |named| named.name.as_str()))
        .bind(run.named.as_ref().map(|named| named.repository.as_str()))
        .execute(&mut **transaction)
        .await
        .map_err(|error| match error.as_database_error() {
            Some(kind) if kind.is_unique_violation() => StoreError::IdTaken { id: run.id.clone() },
            _ => self.error(&error),
        })?;
        if let Some(spec) = spec {
            sqlx::query("INSERT INTO specs (sha, task) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(&run.spec_sha)
                .bind(spec)
                .execute(&mut **transaction)
                .await
                .map_err(|error| self.error(&error))?;
        }
        self.append_event(transaction, run.id.as_str(), "forked", &run.branch).await
    }

    /// Fails if the repository already has a run with this name.
    async fn require_free_name(
        &self,
        transaction: &mut WriteConnection,
        named: &RunName,
    ) -> Result<(), StoreError> {
        let taken = sqlx::query("SELECT id FROM runs WHERE repository = $1 AND name = $2")
            .bind(&named.repository)
            .bind(named.name.as_str())
            .fetch_optional(&mut **transaction)
            .await
            .map_err(|error| self.error(&error))?;
        match taken {
            None => Ok(()),
            Some(_) => Err(StoreError::NameTaken { name: named.name.clone() }),
        }
    }
}

impl RunStore for Store {
    async fn find(&self, id: &AgentId) -> Result<Option<Run>, StoreError> {
        let row = sqlx::query(select_run!("WHERE id = $1"))
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        row.map(|row| self.run(&row)).transpose()
    }

    async fn record(&self, run: &NewRun, spec: Option<&str>) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        self.insert(&mut transaction, run, spec).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    async fn finish_spawn(&self, id: &AgentId) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        let updated = sqlx::query("UPDATE runs SET half_spawned = 0 WHERE id = $1")
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
        if updated.rows_affected() == 0 {
            return Err(self.no_such_run(id.as_str()).await);
        }
        self.append_event(&mut transaction, id.as_str(), "spawned", "").await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }

    async fn change_status(
        &self,
        id: &AgentId,
        next: RunStatus,
        summary: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        let row = sqlx::query(select_run!("WHERE id = $1"))
            .bind(id.as_str())
            .fetch_optional(&mut *transaction)
            .await
            .map_err(|error| self.error(&error))?;
        let Some(row) = row else {
            transaction.rollback().await;
            return Err(self.no_such_run(id.as_str()).await);
        };
        let run = self.run(&row)?;
        run.status.may_become(next).map_err(|why| StoreError::Illegal { id: id.clone(), why })?;
        sqlx::query(
            "UPDATE runs SET status = $1, summary = COALESCE($2, summary), \
             finished_at = COALESCE(finished_at, $3) WHERE id = $4",
        )
        .bind(next.as_str())
        .bind(summary.map(|summary| storable(summary).into_owned()))
        .bind(now())
        .bind(id.as_str())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.error(&error))?;
        // A run that can no longer land must not block others.
        let outcome = match next {
            RunStatus::Merged => Some(ClaimOutcome::Done),
            RunStatus::Failed | RunStatus::Rejected => Some(ClaimOutcome::Failed),
            RunStatus::Running | RunStatus::Done => None,
        };
        if let Some(outcome) = outcome {
            self.close_claims_of(&mut transaction, id, outcome, now().unsigned_abs()).await?;
        }
        let detail = summary.unwrap_or_default();
        self.append_event(&mut transaction, id.as_str(), next.as_str(), detail).await?;
        transaction.commit().await.map_err(|error| self.error(&error))
    }
}
