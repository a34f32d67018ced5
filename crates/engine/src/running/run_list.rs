//! The runs that `ps` and `status` show, each with its last attempt and what all its attempts used.

use std::collections::BTreeMap;

use bailiwick_model::attempt::Used;
use bailiwick_model::{AgentId, Attempt, Run};

use super::recover;
use crate::agent_names::Scope;
use crate::context::Context;
use crate::failure::Failure;
use crate::system;

/// A run as lists show it.
pub struct ListedRun {
    /// Its record in the ledger.
    pub run: Run,
    /// Its last attempt; `None` if it was never started.
    pub last: Option<Attempt>,
    /// What all attempts have used.
    pub used: Used,
    /// How long all attempts have worked.
    pub elapsed_ms: u64,
}

/// Reads the runs of a scope. Runs that were cut off are settled first.
pub fn read(context: &Context, all_repos: bool) -> Result<(Scope, Vec<ListedRun>), Failure> {
    recover::record_interrupted_runs(context)?;
    let scope = Scope::observe(context, all_repos)?;
    let (runs, attempts) = context
        .with_store(async |store| Ok((store.list(None).await?, store.attempts(None).await?)))?;
    let mut of_run: BTreeMap<AgentId, Vec<Attempt>> = BTreeMap::new();
    for attempt in attempts {
        of_run.entry(attempt.run.clone()).or_default().push(attempt);
    }
    let runs = runs.into_iter().filter(|run| scope.includes(run));
    let now = system::now_ms();
    let listed = runs.map(|run| listed(of_run.remove(&run.id).unwrap_or_default(), run, now));
    let listed = listed.collect();
    Ok((scope, listed))
}

/// How long these attempts have worked, in milliseconds.
pub fn elapsed(attempts: &[Attempt], now: u64) -> u64 {
    let worked =
        |attempt: &Attempt| attempt.ended_at.unwrap_or(now).saturating_sub(attempt.started_at);
    attempts.iter().map(worked).fold(0, u64::saturating_add)
}

fn listed(mut attempts: Vec<Attempt>, run: Run, now: u64) -> ListedRun {
    let used = attempts.iter().fold(Used::default(), |sum, attempt| sum.plus(&attempt.used));
    let elapsed_ms = elapsed(&attempts, now);
    ListedRun { run, last: attempts.pop(), used, elapsed_ms }
}
