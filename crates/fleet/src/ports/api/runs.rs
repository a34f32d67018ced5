//! Runs: operations and results.

use bailiwick_resources::{Moment, RunPhase, SourceRefs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An action on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerb {
    /// Cancels the run and its sub-agents.
    Cancel,
    /// Starts a new attempt with the same context.
    Retry,
    /// Resumes the session after an interruption.
    Resume,
    /// Resumes the session with another message.
    Continue,
    /// Starts a new run from the same commit, with the same spec.
    Fork,
    /// Gathers the context of the run again, for its next attempt.
    RefreshContext,
}

impl RunVerb {
    /// All actions.
    pub const ALL: [Self; 6] =
        [Self::Cancel, Self::Retry, Self::Resume, Self::Continue, Self::Fork, Self::RefreshContext];

    /// The name in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Resume => "resume",
            Self::Continue => "continue",
            Self::Fork => "fork",
            Self::RefreshContext => "refresh-context",
        }
    }
}

/// The parameters of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunVerbRequest {
    /// The reason for the audit log. Required for `refresh-context`.
    pub reason: String,
    /// The message for the agent. Required for `continue`; for `fork` it replaces the task.
    pub message: String,
    /// The expected generation of the run. If it is another one, the request is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_generation: Option<u64>,
}

/// The result of an action on a run, or of a request for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAnswer {
    /// Whether the request was recorded and will be done.
    pub accepted: bool,
    /// The name of the run. After a fork, the name of the new run.
    pub run: String,
    /// The name of its latest attempt, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The phase of the run.
    pub phase: RunPhase,
}

/// A request for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchRequest {
    /// The repository, by the name of its object or as `owner/name`.
    pub repository: String,
    /// The name of the AgentStack.
    pub agent_stack: String,
    /// The kind of task.
    pub task_kind: String,
    /// The task for the agent.
    pub task: String,
    /// The ref, such as `refs/heads/main`. If left out, the default branch.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit. If left out, the head of the ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    /// The objects that the run is about.
    #[serde(default)]
    pub source_refs: SourceRefs,
    /// The name of the RunnerPool. If left out, the pool of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// The names of context labels whose text is added to the prompt.
    #[serde(default)]
    pub context_labels: Vec<String>,
    /// An ID for retries: a second request with the same ID returns the same run. If left out, one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// The position of the event. It increases over all attempts. Its upper half is the attempt in which the agent
    /// started, counted from 0; its lower half counts the events of the agent from 1.
    pub cursor: u64,
    /// The number of the attempt.
    pub attempt: u32,
    /// The time of the event.
    pub at: Moment,
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: String,
    /// The details of the event. Secrets were redacted before it was stored.
    pub body: Value,
}

/// Events of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvents {
    /// The events, the oldest first.
    pub events: Vec<RunEvent>,
    /// If true, no more events follow unless the run is resumed or retried.
    pub ended: bool,
}
