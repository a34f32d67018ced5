//! Which runs are attempts of the control plane, and how far its run is: from the index of the resources.

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::AgentId;
use bailiwick_resources::RunPhase;
use sqlx::Row as _;

use crate::open::Store;
use crate::sql::{quoted, unescaped};

/// The run of the control plane that decides about an agent's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatch {
    /// The agent is its current attempt.
    Current { run: String, phase: RunPhase },
    /// The agent is an attempt that another one has replaced.
    Replaced,
}

/// Whether a run of the control plane has the agent `runs.id` and one of these phases. Without joins, `EXISTS` and `IN`,
/// each agent and each phase is looked up in the index, also by a database that knows little about its tables.
fn has_phase(phases: impl Iterator<Item = RunPhase>) -> String {
    let is_in = |phase: RunPhase| {
        format!(
            "(SELECT 1 FROM resource_terms p WHERE p.term = 'AgentDispatchRun.status' \
             AND p.value = '{}' AND p.born = a.born) IS NOT NULL",
            phase.as_str()
        )
    };
    format!(
        "(SELECT 1 FROM resource_terms a WHERE a.term = 'AgentDispatchRun.agent' \
         AND a.value = runs.id AND ({}) LIMIT 1)",
        phases.map(is_in).collect::<Vec<_>>().join(" OR ")
    )
}

/// Whether the control plane has settled the run of the agent `runs.id`: it has succeeded, failed or was cancelled, or
/// has another attempt. An agent that still works is not settled.
pub(crate) fn is_settled() -> String {
    let open = RunPhase::ALL.into_iter().filter(|phase| !phase.is_final());
    format!(
        "(SELECT 1 FROM resource_terms WHERE term IN ('AgentDispatchAttempt.agent', \
         'AgentDispatchRun.agent') AND value = runs.id LIMIT 1) IS NOT NULL \
         AND {} IS NULL \
         AND NOT EXISTS (SELECT 1 FROM attempts WHERE run = runs.id AND ended_at IS NULL)",
        has_phase(open)
    )
}

/// How many open runs the control plane has settled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettledDispatches {
    pub succeeded: u64,
    /// They failed or were cancelled, or another attempt replaced them.
    pub failed: u64,
}

impl Store {
    /// The run of the control plane that an agent is an attempt of.
    pub async fn dispatch_of(&self, agent: &AgentId) -> Result<Option<Dispatch>, StoreError> {
        let phases = quoted(RunPhase::ALL.into_iter().map(RunPhase::as_str));
        let query = format!(
            "SELECT r.name, (SELECT p.value FROM resource_terms p \
             WHERE p.term = 'AgentDispatchRun.status' AND p.value IN ({phases}) \
             AND p.born = a.born LIMIT 1) FROM resource_terms a CROSS JOIN resources r \
             WHERE a.term = 'AgentDispatchRun.agent' AND a.value = $1 AND r.born = a.born \
             ORDER BY a.born DESC LIMIT 1"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(agent.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        if let Some(row) = row {
            let read = || -> Result<(String, Option<String>), sqlx::Error> {
                Ok((row.try_get(0)?, row.try_get(1)?))
            };
            let (run, word) = read().map_err(|error| self.error(&error))?;
            let phase =
                RunPhase::ALL.into_iter().find(|phase| word.as_deref() == Some(phase.as_str()));
            return Ok(phase.map(|phase| Dispatch::Current { run: unescaped(run), phase }));
        }
        let attempt = sqlx::query(
            "SELECT 1 FROM resource_terms WHERE term = 'AgentDispatchAttempt.agent' \
             AND value = $1 LIMIT 1",
        )
        .bind(agent.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.error(&error))?;
        Ok(attempt.map(|_| Dispatch::Replaced))
    }

    /// Counts the runs that are open in the ledger although the control plane has settled them.
    pub async fn count_settled_dispatches(&self) -> Result<SettledDispatches, StoreError> {
        let succeeded = has_phase([RunPhase::Succeeded].into_iter());
        let query = format!(
            "SELECT COUNT(*), COUNT({succeeded}) FROM runs WHERE status IN ('running', 'done') AND {}",
            is_settled()
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(query))
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        let read = || -> Result<(i64, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (all, succeeded) = read().map_err(|error| self.error(&error))?;
        let (all, succeeded) = (all.unsigned_abs(), succeeded.unsigned_abs());
        Ok(SettledDispatches { succeeded, failed: all.saturating_sub(succeeded) })
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Row as _;

    use super::is_settled;
    use crate::{Location, Store};

    /// According to the query plan, SQLite searches the runs of the agent, not those with a phase.
    #[tokio::test]
    async fn settled_runs_are_found_by_their_agent() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Location::file(directory.path().join("x.db"))).await.unwrap();
        let query = format!("EXPLAIN QUERY PLAN SELECT id FROM runs WHERE NOT ({})", is_settled());
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(&store.pool).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(3)).collect();
        for table in ["a", "p", "resource_terms", "attempts"] {
            let searched = format!("SEARCH {table} ");
            assert!(plan.iter().any(|step| step.starts_with(&searched)), "{table}: {plan:#?}");
        }
        let of_agent = |step: &&String| step.starts_with("SEARCH a ") && !step.contains("born=?");
        assert!(plan.iter().any(|step| of_agent(&step)), "{plan:#?}");
    }
}
