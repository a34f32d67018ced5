//! Runs: what can be done to them, and what they tell.

use bailiwick_resources::{Moment, RunPhase, SourceRefs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What can be done to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerb {
    /// It ends, with everything that it started.
    Cancel,
    /// A new attempt with the same bundle.
    Retry,
    /// The conversation goes on after an interruption.
    Resume,
    /// A person has more to say.
    Continue,
    /// A new run that begins where this one is.
    Fork,
}

impl RunVerb {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::Cancel, Self::Retry, Self::Resume, Self::Continue, Self::Fork];

    /// As it stands in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Resume => "resume",
            Self::Continue => "continue",
            Self::Fork => "fork",
        }
    }
}

/// What is said with a verb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunVerbRequest {
    /// Why.
    pub reason: String,
    /// What the agent is told.
    pub message: String,
    /// The generation that the run must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// What became of a run or of the wish for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAnswer {
    /// Whether it was kept and will be done.
    pub accepted: bool,
    /// The run: another one after a fork.
    pub run: String,
    /// Its attempt, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// How far it is.
    pub phase: RunPhase,
}

/// A person asks for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchRequest {
    /// The repository.
    pub repository: String,
    /// The stack.
    pub agent_stack: String,
    /// What it is for.
    pub task_kind: String,
    /// What the agent is told to do.
    pub task: String,
    /// The ref, as `refs/heads/main`; the default branch when left out.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit; where the ref is when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The pool; the stack's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Labels whose fragments are added.
    #[serde(default)]
    pub context_labels: Vec<String>,
    /// The same id twice is the same wish; made up when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// What to go on from. It grows over all attempts: its upper half says in which the agent began, its
    /// lower half counts the agent's events from one.
    pub cursor: u64,
    /// The number of the attempt that it is of.
    pub attempt: u32,
    /// When.
    pub at: Moment,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// More; redacted before it was kept.
    pub body: Value,
}

/// Some events of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvents {
    /// The events, the oldest first.
    pub events: Vec<RunEvent>,
    /// Whether nothing comes after them unless the run is taken up again.
    pub ended: bool,
}
