//! What a machine without a database needs to continue the work on an issue: its runs, its budget, its claims and the
//! next step, from the forge alone.

use bailiwick_resources::Moment;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{Budget, ChainResult};
use crate::claim_table::{ClaimTable, TableClaim};
use crate::entry::{Entrant, EntryRefusal, check_entry};
use crate::event::EventKind;
use crate::issue::Trust;
use crate::port::LabelEvent;
use crate::protocol::Loaded;
use crate::recorded::run_of;
use crate::reservation::Reservation;

/// A run that has left a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveredRun {
    pub id: String,
    pub agent: String,
    /// How its last attempt ended.
    pub result: ChainResult,
    /// Of all its attempts.
    pub tokens: u64,
    pub attempts: u64,
    pub depth: u32,
    pub first_at: Moment,
    pub last_at: Moment,
    pub action: String,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum NextStep {
    /// This agent is to work on the issue.
    Start {
        agent: String,
    },
    /// No result names an agent: a person decides.
    Decide,
    /// Nobody may work on the issue now.
    Stopped {
        why: String,
    },
    Closed,
}

/// The work on an issue as the forge has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovered {
    pub issue: u64,
    pub title: String,
    pub budget: Option<Budget>,
    /// In the order of their first results.
    pub runs: Vec<RecoveredRun>,
    pub claims: Vec<TableClaim>,
    /// Of runs that have left no result: they work on another machine, or were lost with it.
    pub reservations: Vec<Reservation>,
    pub next: NextStep,
}

impl Recovered {
    /// What every machine must come to, as hexadecimal SHA-256.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Rebuilds the work on an issue.
pub fn recover(
    loaded: &Loaded,
    labels: &[LabelEvent],
    table: &ClaimTable,
    trust: &Trust,
) -> Recovered {
    let (issue, state) = (&loaded.read.issue, &loaded.state);
    let now = loaded.read.now;
    let mut runs: Vec<RecoveredRun> = Vec::new();
    for recorded in &state.events {
        let event = &recorded.event;
        let Some(invocation) = event.invocation_id.as_deref() else { continue };
        if event.kind != EventKind::SubagentResult {
            continue;
        }
        let id = run_of(invocation);
        let result = ChainResult::of_verdict(event.verdict.as_deref());
        let tokens = event.budget.map_or(0, |budget| budget.consumed);
        match runs.iter_mut().find(|run| run.id == id) {
            Some(run) => {
                run.tokens = run.tokens.saturating_add(tokens);
                run.attempts = run.attempts.saturating_add(1);
                run.result = result;
                run.last_at = recorded.at;
                run.action.clone_from(&recorded.action);
            }
            None => runs.push(RecoveredRun {
                id: id.to_owned(),
                agent: event.agent.clone(),
                result,
                tokens,
                attempts: 1,
                depth: event.depth.unwrap_or_default(),
                first_at: recorded.at,
                last_at: recorded.at,
                action: recorded.action.clone(),
            }),
        }
    }
    let budget = state.checkpoint.as_ref().filter(|_| state.has_recorded_budget());
    let of_issue = table.claims.iter().filter(|claim| claim.issue == Some(issue.number));
    let pending = table.reservations.iter().filter(|one| {
        one.issue == issue.number && now < one.reserved_until && !state.has_result(&one.invocation)
    });
    Recovered {
        issue: issue.number,
        title: issue.title.clone(),
        budget: budget.map(|checkpoint| checkpoint.budget),
        runs,
        claims: of_issue.filter(|claim| now < claim.leased_until).cloned().collect(),
        reservations: pending.cloned().collect(),
        next: next(loaded, labels, trust),
    }
}

fn next(loaded: &Loaded, labels: &[LabelEvent], trust: &Trust) -> NextStep {
    let agent = loaded.state.checkpoint.as_ref().and_then(|one| one.next_agent.clone());
    let entrant = Entrant {
        agent: agent.clone().unwrap_or_default(),
        depth: 0,
        own_max_depth: None,
        is_orchestrator: false,
        estimate: 0,
        changes_system: false,
    };
    match check_entry(&loaded.read.issue, &loaded.state, labels, trust, &entrant) {
        Err(EntryRefusal::Closed) => NextStep::Closed,
        Err(refusal) => NextStep::Stopped { why: refusal.to_string() },
        Ok(()) => agent.map_or(NextStep::Decide, |agent| NextStep::Start { agent }),
    }
}
