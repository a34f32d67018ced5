//! The state of an issue: everything that its comments record, rebuilt without trusting the checkpoint in its body.

use std::collections::BTreeSet;

use bailiwick_resources::Moment;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{
    Budget, ChainEntry, ChainResult, Checkpoint, HistoryEntry, IssueState, MAX_CHAIN, MAX_HISTORY,
    last,
};
use crate::claim_log::{ClaimLog, UnknownRelease};
use crate::claim_snapshot::ClaimSnapshot;
use crate::comment::ResultComment;
use crate::event::{Event, EventKind, FooterError, events_of};
use crate::issue::{Comment, Issue, Trust};
use crate::issue_body::{BodyError, find_checkpoint};
use crate::labels::Family;
use crate::port::StateEvent;
use crate::recorded::{Recorded, run_of};

/// The longest action of a history entry.
const MAX_ACTION: usize = 80;

/// An event that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    pub comment: u64,
    pub author: String,
    pub reason: IgnoredReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The account may not speak for this agent.
    ForeignAuthor(String),
    /// The comment was changed after it was written; nobody can tell by whom.
    Edited,
    /// The account is shared, and the event has no valid signature.
    NotSigned,
    /// The event is about another issue.
    OtherIssue(u64),
    /// The same invocation was recorded before.
    Repeated(String),
    Footer(FooterError),
}

/// Something that does not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inconsistency {
    /// The body has no checkpoint that can be read.
    Body(BodyError),
    /// The checkpoint in the body is not what the comments record.
    Differs {
        field: &'static str,
        body: String,
        recorded: String,
    },
    UnknownRelease(UnknownRelease),
    /// An event says that another number of tokens was left before it; events can overlap, so this is only a hint.
    Budget {
        comment: u64,
        said: i64,
        recorded: i64,
    },
}

/// Everything that an issue's comments record.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Rebuilt from the comments; nothing if neither they nor the body say what the budget is.
    pub checkpoint: Option<Checkpoint>,
    /// In the order of their comments.
    pub events: Vec<Recorded>,
    /// Claims in the comments; only an issue that was chosen for them has any.
    pub claims: ClaimLog,
    pub ignored: Vec<Ignored>,
    pub inconsistencies: Vec<Inconsistency>,
}

impl State {
    /// What everybody who reads the same comments must come to, as hexadecimal SHA-256.
    pub fn digest(&self) -> String {
        let mut text =
            self.checkpoint.as_ref().and_then(|one| one.render().ok()).unwrap_or_default();
        if self.claims.last_change > 0 {
            text.push_str(&self.claims.table.render());
        }
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether an event says what the budget is. The body alone proves nothing: the person who opened the issue can write it.
    pub fn has_recorded_budget(&self) -> bool {
        let total = |recorded: &Recorded| recorded.event.budget.and_then(|budget| budget.total);
        self.events.iter().any(|recorded| total(recorded).is_some())
    }

    /// The files that the last run which handed the issue on has left: its name, and a commit.
    pub fn stored_work(&self) -> Option<(&str, &str)> {
        self.events.iter().rev().find_map(|recorded| {
            let event = &recorded.event;
            Some((run_of(event.invocation_id.as_deref()?), event.work_commit.as_deref()?))
        })
    }

    /// The runs that handed the issue on, and when; none if the agent that was named last has left its result.
    pub fn handing_runs(&self) -> Vec<(&str, Moment)> {
        let checkpoint = self.checkpoint.as_ref();
        if !checkpoint.is_some_and(|one| one.last_agent.is_some() && one.next_agent.is_some()) {
            return Vec::new();
        }
        let handing = self.events.iter().filter(|Recorded { event, .. }| {
            let is_run = matches!(event.kind, EventKind::SubagentResult | EventKind::StateChange);
            is_run && event.next_agent.is_some()
        });
        let runs = handing.filter_map(|recorded| {
            let invocation = recorded.event.invocation_id.as_deref()?;
            Some((run_of(invocation), recorded.at))
        });
        runs.collect()
    }

    /// Whether an invocation has left its result.
    pub fn has_result(&self, invocation: &str) -> bool {
        self.events.iter().any(|recorded| counted_invocation(&recorded.event) == Some(invocation))
    }
}

/// Rebuilds the state of an issue. The comments may come in any order.
pub fn read_state(issue: &Issue, comments: &[Comment], trust: &Trust) -> State {
    let (events, ignored) = record(issue, comments, trust);
    let claims = read_claims(issue, None, &events, trust, &[]);
    let in_body = find_checkpoint(&issue.body, issue.number);
    let checkpoint = rebuild(issue, &events, in_body.as_ref().ok());
    let mut inconsistencies: Vec<Inconsistency> =
        claims.unknown.iter().cloned().map(Inconsistency::UnknownRelease).collect();
    match (&in_body, &checkpoint) {
        (Ok(body), Some(recorded)) => inconsistencies.extend(differences(body, recorded)),
        // An issue without events needs no checkpoint.
        (Err(BodyError::Missing), None) => {}
        (Err(error), _) => inconsistencies.push(Inconsistency::Body(error.clone())),
        (Ok(_), None) => {}
    }
    State { checkpoint, events, claims, ignored, inconsistencies }
}

/// The claims in the comments of an issue that was closed and opened at these times.
pub(crate) fn read_claims(
    issue: &Issue,
    snapshot: Option<&ClaimSnapshot>,
    events: &[Recorded],
    trust: &Trust,
    states: &[StateEvent],
) -> ClaimLog {
    let is_over = !issue.is_open || issue.is_locked;
    ClaimLog::read_after(snapshot, events, trust, states, is_over)
}

fn record(issue: &Issue, comments: &[Comment], trust: &Trust) -> (Vec<Recorded>, Vec<Ignored>) {
    let mut ordered: Vec<&Comment> = comments.iter().collect();
    ordered.sort_by_key(|comment| comment.id);
    ordered.dedup_by_key(|comment| comment.id);
    let (mut recorded, mut ignored) = (Vec::new(), Vec::new());
    let mut invocations = BTreeSet::new();
    for comment in ordered {
        for event in events_of(&comment.body) {
            let refuse =
                |reason| Ignored { comment: comment.id, author: comment.author.clone(), reason };
            match accept(event, comment, issue, trust, &invocations) {
                Ok(event) => {
                    if let Some(id) = counted_invocation(&event) {
                        invocations.insert(id.to_owned());
                    }
                    recorded.push(Recorded {
                        comment: comment.id,
                        author: comment.author.clone(),
                        at: comment.created_at,
                        action: action(comment, &event),
                        event,
                    });
                }
                Err(reason) => ignored.push(refuse(reason)),
            }
        }
    }
    (recorded, ignored)
}

fn accept(
    event: Result<Event, FooterError>,
    comment: &Comment,
    issue: &Issue,
    trust: &Trust,
    invocations: &BTreeSet<String>,
) -> Result<Event, IgnoredReason> {
    let event = event.map_err(IgnoredReason::Footer)?;
    match &trust.shared {
        Some(shared) if trust.is_shared(shared, &comment.author) => {
            if !shared.key.verifies(&event, &issue.repository, issue.number) {
                return Err(IgnoredReason::NotSigned);
            }
        }
        Some(_) | None => {
            if !trust.is_account_of(&comment.author, &event.agent) {
                return Err(IgnoredReason::ForeignAuthor(event.agent));
            }
        }
    }
    if comment.updated_at != comment.created_at {
        return Err(IgnoredReason::Edited);
    }
    if let Some(other) = event.issue.filter(|number| *number != issue.number) {
        return Err(IgnoredReason::OtherIssue(other));
    }
    if let Some(id) = counted_invocation(&event)
        && invocations.contains(id)
    {
        return Err(IgnoredReason::Repeated(id.to_owned()));
    }
    Ok(event)
}

/// The invocation whose result counts once. Claims have the invocation of the run that they are for.
fn counted_invocation(event: &Event) -> Option<&str> {
    match event.kind {
        EventKind::TaskClaim | EventKind::TaskClaimRelease | EventKind::SecurityAlert => None,
        EventKind::SubagentResult
        | EventKind::StateChange
        | EventKind::BudgetUpdate
        | EventKind::Checkpoint => event.invocation_id.as_deref(),
    }
}

fn action(comment: &Comment, event: &Event) -> String {
    let read = ResultComment::parse(&comment.body).ok();
    let line = read.and_then(|read| read.action.lines().next().map(str::to_owned));
    let line = line.unwrap_or_else(|| event.kind.as_str().to_owned());
    line.chars().take(MAX_ACTION).collect()
}

/// The checkpoint that the events lead to. The first `checkpoint` event says where it begins; without one, the body.
fn rebuild(issue: &Issue, events: &[Recorded], body: Option<&Checkpoint>) -> Option<Checkpoint> {
    let first = events.iter().find(|recorded| recorded.event.kind == EventKind::Checkpoint);
    let mut checkpoint = match (first.and_then(|recorded| begin(issue.number, recorded)), body) {
        (Some(first), _) => first,
        (None, Some(body)) => {
            Checkpoint::new(issue.number, &body.phase, body.budget.total, body.created_at)
        }
        (None, None) => return None,
    };
    checkpoint.current_task = body.and_then(|body| body.current_task.clone());
    let mut consumed = 0_u64;
    let (mut history, mut chain) = (Vec::new(), Vec::new());
    for recorded in events {
        let event = &recorded.event;
        if let Some(budget) = event.budget {
            consumed = consumed.saturating_add(budget.consumed);
            checkpoint.budget.total = budget.total.unwrap_or(checkpoint.budget.total);
        }
        for label in &event.state_changes.labels_add {
            if let Some((Family::Phase, phase)) = Family::of(label) {
                phase.clone_into(&mut checkpoint.phase);
            }
        }
        checkpoint.depth = event.depth.unwrap_or(checkpoint.depth);
        let is_run = match event.kind {
            EventKind::SubagentResult | EventKind::StateChange => event.invocation_id.is_some(),
            // Neither is a run; they may still say who works next.
            EventKind::Checkpoint | EventKind::BudgetUpdate => {
                if event.next_agent.is_some() {
                    checkpoint.next_agent.clone_from(&event.next_agent);
                }
                false
            }
            EventKind::SecurityAlert | EventKind::TaskClaim | EventKind::TaskClaimRelease => false,
        };
        if is_run {
            checkpoint.last_agent = Some(event.agent.clone());
            checkpoint.last_invocation.clone_from(&event.invocation_id);
            checkpoint.next_agent.clone_from(&event.next_agent);
            checkpoint.next_estimated_tokens = event.estimated_next_tokens;
            let (agent, action) = (event.agent.clone(), recorded.action.clone());
            let result = ChainResult::of_verdict(event.verdict.as_deref());
            chain.push(ChainEntry {
                agent: agent.clone(),
                action: action.clone(),
                timestamp: recorded.at,
                result,
            });
            history.push(HistoryEntry { agent, action, timestamp: recorded.at });
        }
        checkpoint.last_event_id = Some(recorded.comment);
    }
    if events.is_empty() {
        // Only the body knows anything.
        return body.cloned();
    }
    checkpoint.budget = Budget::new(checkpoint.budget.total, consumed);
    checkpoint.history_tail = last(history, MAX_HISTORY);
    checkpoint.agent_chain = last(chain, MAX_CHAIN);
    let active = issue.labels.iter().filter(|label| Family::of(label).is_some());
    let mut labels: Vec<String> = active.cloned().collect();
    // Forges have orders of their own.
    labels.sort();
    checkpoint.state = IssueState { labels, assignee: issue.assignee.clone() };
    Some(checkpoint)
}

/// The first checkpoint of an issue, by the event that made it.
fn begin(issue: u64, recorded: &Recorded) -> Option<Checkpoint> {
    let total = recorded.event.budget.and_then(|budget| budget.total)?;
    let phase = recorded.event.other.get("phase").and_then(Value::as_str).unwrap_or("new");
    Some(Checkpoint::new(issue, phase, total, recorded.at))
}

fn differences(body: &Checkpoint, recorded: &Checkpoint) -> Vec<Inconsistency> {
    let shown = |value: &dyn std::fmt::Debug| format!("{value:?}");
    let fields: [(&'static str, String, String); 6] = [
        ("phase", body.phase.clone(), recorded.phase.clone()),
        ("depth", body.depth.to_string(), recorded.depth.to_string()),
        ("budget.total", body.budget.total.to_string(), recorded.budget.total.to_string()),
        ("budget.consumed", body.budget.consumed.to_string(), recorded.budget.consumed.to_string()),
        ("last_invocation", shown(&body.last_invocation), shown(&recorded.last_invocation)),
        ("next_agent", shown(&body.next_agent), shown(&recorded.next_agent)),
    ];
    let different = fields.into_iter().filter(|(_, body, recorded)| body != recorded);
    different
        .map(|(field, body, recorded)| Inconsistency::Differs { field, body, recorded })
        .collect()
}
