//! The checkpoint: the state of an issue in short, as YAML in its body.

use bailiwick_resources::Moment;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The only version that there is. Nobody changes it.
const VERSION: u32 = 2;
/// Entries of `history_tail`.
pub const MAX_HISTORY: usize = 3;
/// Entries of `agent_chain`.
pub const MAX_CHAIN: usize = 5;
/// Files of `current_task`.
pub const MAX_FILES: usize = 3;

/// A checkpoint of version 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    version: u32,
    pub issue: u64,
    pub phase: String,
    pub depth: u32,
    pub last_agent: Option<String>,
    pub last_invocation: Option<String>,
    pub budget: Budget,
    pub state: IssueState,
    pub history_tail: Vec<HistoryEntry>,
    pub next_agent: Option<String>,
    pub next_estimated_tokens: Option<u64>,
    pub created_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_task: Option<CurrentTask>,
    pub agent_chain: Vec<ChainEntry>,
    /// The comment of the last event that is counted here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<u64>,
}

/// Tokens of the whole issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub total: u64,
    pub consumed: u64,
    /// Always `total − consumed`.
    pub remaining: i64,
}

impl Budget {
    pub fn new(total: u64, consumed: u64) -> Self {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self { total, consumed, remaining: signed(total).saturating_sub(signed(consumed)) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IssueState {
    pub labels: Vec<String>,
    pub assignee: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    pub agent: String,
    pub action: String,
    pub timestamp: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurrentTask {
    pub title: String,
    pub deliverable: String,
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default)]
    pub skill: Option<String>,
    #[serde(default)]
    pub rule: Option<String>,
    /// Written by older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainEntry {
    pub agent: String,
    pub action: String,
    pub timestamp: Moment,
    pub result: ChainResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainResult {
    Pass,
    Fail,
    Blocked,
}

impl ChainResult {
    /// What the verdict of an event means; one that cannot be read is a failure.
    pub fn of_verdict(verdict: Option<&str>) -> Self {
        match verdict {
            Some("pass") | None => Self::Pass,
            Some("blocked") => Self::Blocked,
            Some(_) => Self::Fail,
        }
    }
}

/// Why a text is not a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointError {
    #[error("the checkpoint is not valid YAML of its schema: {0}")]
    Malformed(String),
    #[error("the checkpoint has version {0}; only version {VERSION} is known")]
    Version(u32),
    #[error(
        "the checkpoint says that {remaining} tokens remain; {total} − {consumed} is another number"
    )]
    Budget { total: u64, consumed: u64, remaining: i64 },
    #[error("the checkpoint is about issue {0}")]
    OtherIssue(u64),
    #[error("the checkpoint has both `history` and `history_tail`")]
    TwoHistories,
}

/// A checkpoint as it is written, with keys that older programs used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    issue: u64,
    phase: String,
    depth: u32,
    #[serde(default)]
    last_agent: Option<String>,
    #[serde(default)]
    last_invocation: Option<String>,
    budget: Budget,
    #[serde(default)]
    state: WrittenState,
    #[serde(default)]
    history_tail: Option<Vec<HistoryEntry>>,
    #[serde(default)]
    history: Option<Vec<HistoryEntry>>,
    #[serde(default)]
    next_agent: Option<String>,
    #[serde(default)]
    next_estimated_tokens: Option<u64>,
    created_at: Moment,
    #[serde(default)]
    current_task: Option<CurrentTask>,
    #[serde(default)]
    agent_chain: Vec<ChainEntry>,
    #[serde(default)]
    last_event_id: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenState {
    labels: Vec<String>,
    assignee: Option<String>,
    /// Written by older programs; the forge knows the milestone.
    #[serde(rename = "milestone")]
    _milestone: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<T> {
    checkpoint: T,
}

impl Checkpoint {
    /// The first checkpoint of an issue.
    pub fn new(issue: u64, phase: &str, total: u64, created_at: Moment) -> Self {
        Self {
            version: VERSION,
            issue,
            phase: phase.to_owned(),
            depth: 0,
            last_agent: None,
            last_invocation: None,
            budget: Budget::new(total, 0),
            state: IssueState::default(),
            history_tail: Vec::new(),
            next_agent: None,
            next_estimated_tokens: None,
            created_at,
            current_task: None,
            agent_chain: Vec::new(),
            last_event_id: None,
        }
    }

    /// Reads the YAML of the checkpoint of an issue.
    pub fn parse(yaml: &str, issue: u64) -> Result<Self, CheckpointError> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            reject_unsupported_tags: true,
            with_snippet: false,
            // A checkpoint has no use for anchors, and without them there are no bombs.
            budget: serde_saphyr::budget! { max_anchors: 0, max_aliases: 0, max_documents: 1, max_depth: 8, },
        };
        let read: Result<Document<Written>, _> = serde_saphyr::from_str_with_options(yaml, options);
        let written =
            read.map_err(|error| CheckpointError::Malformed(error.to_string()))?.checkpoint;
        if written.version != VERSION {
            return Err(CheckpointError::Version(written.version));
        }
        if written.issue != issue {
            return Err(CheckpointError::OtherIssue(written.issue));
        }
        let Budget { total, consumed, remaining } = written.budget;
        if Budget::new(total, consumed).remaining != remaining {
            return Err(CheckpointError::Budget { total, consumed, remaining });
        }
        let history_tail = match (written.history_tail, written.history) {
            (Some(_), Some(_)) => return Err(CheckpointError::TwoHistories),
            (Some(entries), None) => entries,
            (None, old) => last(old.unwrap_or_default(), MAX_HISTORY),
        };
        Ok(Self {
            version: VERSION,
            issue,
            phase: written.phase,
            depth: written.depth,
            last_agent: written.last_agent,
            last_invocation: written.last_invocation,
            budget: written.budget,
            state: IssueState { labels: written.state.labels, assignee: written.state.assignee },
            history_tail,
            next_agent: written.next_agent,
            next_estimated_tokens: written.next_estimated_tokens,
            created_at: written.created_at,
            current_task: written.current_task,
            agent_chain: written.agent_chain,
            last_event_id: written.last_event_id,
        })
    }

    /// The YAML, as [`Checkpoint::parse`] reads it.
    pub fn render(&self) -> Result<String, CheckpointError> {
        #[derive(Serialize)]
        struct Document<'a> {
            checkpoint: &'a Checkpoint,
        }
        let document = Document { checkpoint: self };
        serde_saphyr::to_string(&document)
            .map_err(|error| CheckpointError::Malformed(error.to_string()))
    }
}

/// The last entries of a list.
pub(crate) fn last<T>(mut entries: Vec<T>, count: usize) -> Vec<T> {
    entries.split_off(entries.len().saturating_sub(count))
}
