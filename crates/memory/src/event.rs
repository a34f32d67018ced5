//! Events: the JSON at the end of a comment, which is the record of what happened.

use std::collections::BTreeMap;

use bailiwick_model::claim::ClaimOutcome;
use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::resource::Resource;

const OPEN: &str = "<!-- GNS_EVENT:";
const CLOSE: &str = "-->";
/// A comment of the protocol has few events; a longer list is somebody's attack.
const MAX_EVENTS: usize = 64;
/// The largest event that is read.
const MAX_BYTES: usize = 256 * 1024;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    SubagentResult,
    StateChange,
    BudgetUpdate,
    /// Raised by the supervisor, when an agent broke a limit or was quarantined.
    SecurityAlert,
    Checkpoint,
    TaskClaim,
    TaskClaimRelease,
}

impl EventKind {
    pub const ALL: [Self; 7] = [
        Self::SubagentResult,
        Self::StateChange,
        Self::BudgetUpdate,
        Self::SecurityAlert,
        Self::Checkpoint,
        Self::TaskClaim,
        Self::TaskClaimRelease,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::SubagentResult => "subagent_result",
            Self::StateChange => "state_change",
            Self::BudgetUpdate => "budget_update",
            Self::SecurityAlert => "security_alert",
            Self::Checkpoint => "checkpoint",
            Self::TaskClaim => "task_claim",
            Self::TaskClaimRelease => "task_claim_release",
        }
    }
}

/// One event. Keys that this version does not know are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: EventKind,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<EventBudget>,
    #[serde(default, skip_serializing_if = "StateChanges::is_empty")]
    pub state_changes: StateChanges,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cascade_log: Vec<CascadeEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_next_tokens: Option<u64>,
    /// The commit that has the files of a run, for the next agent on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The budget before and after an invocation, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBudget {
    pub before: i64,
    pub consumed: u64,
    pub remaining: i64,
    /// The new total, if a person changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateChanges {
    pub labels_add: Vec<String>,
    pub labels_remove: Vec<String>,
    pub assignee: Option<String>,
    pub milestone: Option<u64>,
    pub is_locked: bool,
}

impl StateChanges {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a sub-agent did for this invocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CascadeEntry {
    pub agent: String,
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    pub tokens: u64,
    pub verdict: String,
}

/// The keys of a `task_claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskClaim {
    pub resources: Vec<Resource>,
    /// How long it holds from its comment's creation, in seconds.
    pub lease_s: u64,
    /// The comment of the claim that this one renews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews: Option<u64>,
    /// The issue that the work is about, if the claims are on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_issue: Option<u64>,
    /// The comments of the claims on the same issue that end with this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_over: Vec<u64>,
}

/// The keys of a `task_claim` on tokens of an issue, in `tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenClaim {
    pub for_issue: u64,
    /// As many as there are, without a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What the issue had left when it was read.
    pub remaining: u64,
    /// How long they are reserved from the comment's creation, in seconds.
    pub lease_s: u64,
    /// The last change of the claims that was visible before the issue was read.
    pub seen: u64,
    /// Invocations whose result was there when the issue was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<String>,
}

/// The key of a `task_claim` on tokens.
const TOKENS: &str = "tokens";
/// The key of a `task_claim_release` that gives back the tokens of this invocation.
const TOKENS_OF: &str = "tokens_of";

/// The keys of a `task_claim_release`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRelease {
    pub claim: u64,
    pub outcome: ClaimOutcome,
}

/// Why a footer is not an event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FooterError {
    #[error("the footer has {0} bytes; events have at most {MAX_BYTES}")]
    TooLarge(usize),
    #[error("the comment has more than {MAX_EVENTS} events")]
    TooMany,
    #[error("the footer is not an event: {0}")]
    Malformed(String),
    #[error("there is no event type `{0}`")]
    UnknownType(String),
}

impl Event {
    /// An event of an agent, with nothing else.
    pub fn new(kind: EventKind, agent: &str) -> Self {
        Self {
            kind,
            agent: agent.to_owned(),
            invocation_id: None,
            parent_id: None,
            issue: None,
            depth: None,
            budget: None,
            state_changes: StateChanges::default(),
            cascade_log: Vec::new(),
            verdict: None,
            next_agent: None,
            estimated_next_tokens: None,
            work_commit: None,
            timestamp: None,
            signature: None,
            other: BTreeMap::new(),
        }
    }

    /// A claim.
    #[must_use]
    pub fn with_claim(mut self, claim: &TaskClaim) -> Self {
        if let Ok(Value::Object(keys)) = serde_json::to_value(claim) {
            self.other.extend(keys);
        }
        self
    }

    /// The release of a claim.
    #[must_use]
    pub fn with_release(mut self, release: &ClaimRelease) -> Self {
        self.other.insert("claim_comment_id".to_owned(), release.claim.into());
        self.other.insert("outcome".to_owned(), release.outcome.as_str().into());
        self
    }

    /// The claim, if the event is one and its keys can be read.
    pub fn claim(&self) -> Option<TaskClaim> {
        if self.kind != EventKind::TaskClaim {
            return None;
        }
        let claim: TaskClaim = serde_json::from_value(Value::Object(self.keys())).ok()?;
        (!claim.resources.is_empty()).then_some(claim)
    }

    /// The release, if the event is one and its keys can be read.
    pub fn release(&self) -> Option<ClaimRelease> {
        if self.kind != EventKind::TaskClaimRelease {
            return None;
        }
        let claim = self.other.get("claim_comment_id")?.as_u64()?;
        let outcome = ClaimOutcome::parse(self.other.get("outcome")?.as_str()?)?;
        Some(ClaimRelease { claim, outcome })
    }

    /// A claim on tokens.
    #[must_use]
    pub fn with_token_claim(mut self, claim: &TokenClaim) -> Self {
        if let Ok(keys) = serde_json::to_value(claim) {
            self.other.insert(TOKENS.to_owned(), keys);
        }
        self
    }

    /// The release of the tokens of an invocation.
    #[must_use]
    pub fn with_token_release(mut self, invocation: &str) -> Self {
        self.other.insert(TOKENS_OF.to_owned(), invocation.into());
        self
    }

    /// The claim on tokens, if the event is one and its keys can be read.
    pub fn token_claim(&self) -> Option<TokenClaim> {
        let keys = self.other.get(TOKENS).filter(|_| self.kind == EventKind::TaskClaim)?;
        serde_json::from_value(keys.clone()).ok()
    }

    /// The invocation whose tokens the event gives back.
    pub fn token_release(&self) -> Option<&str> {
        let value =
            self.other.get(TOKENS_OF).filter(|_| self.kind == EventKind::TaskClaimRelease)?;
        value.as_str()
    }

    fn keys(&self) -> serde_json::Map<String, Value> {
        self.other.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The footer of an event. No value can end it: `<` and `>` are escaped, as JSON allows.
pub fn footer(event: &Event) -> String {
    let json = serde_json::to_string(event).unwrap_or_default();
    format!("{OPEN} {} {CLOSE}", json.replace('<', "\\u003c").replace('>', "\\u003e"))
}

/// The events of a comment. Only footers at the end of the text count, so that what an agent quotes is no event.
pub fn events_of(body: &str) -> Vec<Result<Event, FooterError>> {
    let mut events = Vec::new();
    let mut rest = body.trim_end();
    while let Some(before) = rest.strip_suffix(CLOSE) {
        let Some(start) = before.rfind(OPEN) else { break };
        let json = before.get(start + OPEN.len()..).unwrap_or_default();
        // Another comment stands between; what is before it is text.
        if json.contains(CLOSE) {
            break;
        }
        if events.len() == MAX_EVENTS {
            events.push(Err(FooterError::TooMany));
            break;
        }
        events.push(parse(json.trim()));
        rest = before.get(..start).unwrap_or_default().trim_end();
    }
    events.reverse();
    events
}

/// The text of a comment without the footers at its end.
pub(crate) fn without_footers(body: &str) -> &str {
    let mut rest = body.trim_end();
    while let Some(before) = rest.strip_suffix(CLOSE) {
        let Some(start) = before.rfind(OPEN) else { break };
        if before.get(start..).is_none_or(|json| json.contains(CLOSE)) {
            break;
        }
        rest = before.get(..start).unwrap_or_default().trim_end();
    }
    rest
}

fn parse(json: &str) -> Result<Event, FooterError> {
    if json.len() > MAX_BYTES {
        return Err(FooterError::TooLarge(json.len()));
    }
    let malformed = |error: serde_json::Error| FooterError::Malformed(error.to_string());
    let value: Value = serde_json::from_str(json).map_err(malformed)?;
    if let Some(kind) = value.get("type").and_then(Value::as_str)
        && EventKind::ALL.iter().all(|known| known.as_str() != kind)
    {
        return Err(FooterError::UnknownType(kind.chars().take(64).collect()));
    }
    serde_json::from_value(value).map_err(malformed)
}
