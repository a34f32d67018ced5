//! What is written to the forge when a run has ended, in this order: the comment, the body, the labels, the assignee.
//! The comment is the record, so a crash after it loses nothing: the rest is made from it again.

use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::comment::ResultComment;
use crate::event::{CascadeEntry, Event, EventBudget, EventKind, StateChanges};
use crate::issue::Issue;
use crate::issue_body::{BodyError, with_checkpoint};
use crate::labels::{BUDGET_EXHAUSTED, BUDGET_WARNING, Family, LabelChange, change_labels};
use crate::signature::SigningKey;
use crate::state::State;

/// The part of the budget after which a label warns, in percent.
const WARNING_PERCENT: u64 = 50;

/// What a run did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub agent: String,
    pub invocation: String,
    pub parent: Option<String>,
    pub depth: u32,
    pub phase: String,
    pub action: String,
    pub result: Value,
    /// `pass`, `fail` or `blocked`.
    pub verdict: String,
    pub consumed: u64,
    pub labels: LabelChange,
    #[serde(default)]
    pub milestone: Option<u64>,
    pub next_agent: Option<String>,
    pub rationale: Option<String>,
    pub estimated_next_tokens: Option<u64>,
    /// The commit that has its files, if another agent continues.
    #[serde(default)]
    pub work_commit: Option<String>,
    pub cascade: Vec<CascadeEntry>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<Moment>,
}

/// The writes of an exit.
#[derive(Debug, Clone, PartialEq)]
pub struct ExitPlan {
    /// `None` if the invocation has left its comment already.
    pub comment: Option<String>,
    /// All labels of the issue afterwards.
    pub labels: Vec<String>,
    pub assignee: Option<String>,
}

/// The comment and labels of a run that has ended. The body comes from [`updated_body`], once the comment is visible.
pub fn plan_exit(
    issue: &Issue,
    state: &State,
    run: &RunResult,
    key: Option<&SigningKey>,
) -> ExitPlan {
    let before = state.checkpoint.as_ref().map(|checkpoint| checkpoint.budget);
    let budget = before.map(|budget| {
        let consumed = i64::try_from(run.consumed).unwrap_or(i64::MAX);
        let remaining = budget.remaining.saturating_sub(consumed);
        EventBudget { before: budget.remaining, consumed: run.consumed, remaining, total: None }
    });
    let mut change = run.labels.clone();
    if !run.phase.is_empty() {
        // The label of the next agent, which starts a run, stays the last one.
        change.add.insert(0, format!("{}::{}", Family::Phase.as_str(), run.phase));
    }
    if let (Some(total), Some(budget)) = (before.map(|budget| budget.total), budget) {
        let warning =
            i64::try_from(total.saturating_mul(100 - WARNING_PERCENT) / 100).unwrap_or(i64::MAX);
        if budget.remaining <= 0 {
            change.add.push(BUDGET_EXHAUSTED.to_owned());
        } else if budget.remaining <= warning {
            change.add.push(BUDGET_WARNING.to_owned());
        }
    }
    let mut event = Event::new(EventKind::SubagentResult, &run.agent);
    event.invocation_id = Some(run.invocation.clone());
    event.parent_id.clone_from(&run.parent);
    event.issue = Some(issue.number);
    event.depth = Some(run.depth);
    event.budget = budget;
    event.verdict = Some(run.verdict.clone());
    event.next_agent.clone_from(&run.next_agent);
    event.estimated_next_tokens = run.estimated_next_tokens;
    event.work_commit.clone_from(&run.work_commit);
    event.timestamp = run.ended_at;
    event.cascade_log.clone_from(&run.cascade);
    event.state_changes = StateChanges {
        labels_add: change.add.clone(),
        labels_remove: change.remove.clone(),
        assignee: run.next_agent.clone(),
        milestone: run.milestone,
        is_locked: false,
    };
    if let Some(key) = key {
        event = key.sign(event, &issue.repository, issue.number);
    }
    let comment = ResultComment {
        phase: run.phase.clone(),
        action: run.action.trim().to_owned(),
        result: run.result.clone(),
        rationale: run.rationale.clone(),
        event,
    };
    ExitPlan {
        comment: (!state.has_result(&run.invocation)).then(|| comment.render()),
        labels: change_labels(&issue.labels, &change),
        assignee: run.next_agent.clone(),
    }
}

/// The body with the checkpoint that the comments lead to; `None` if it has that checkpoint already.
pub fn updated_body(issue: &Issue, state: &State) -> Result<Option<String>, BodyError> {
    let Some(checkpoint) = &state.checkpoint else { return Ok(None) };
    let body = with_checkpoint(&issue.body, checkpoint)?;
    Ok((body != issue.body).then_some(body))
}
