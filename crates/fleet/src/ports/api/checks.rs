//! The state of a commit: the forge's checks, and our runs.

use bailiwick_resources::{Moment, RunPhase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The checks of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChecksAnswer {
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The commit.
    pub sha: String,
    /// The checks of the forge.
    pub checks: Vec<ForgeCheck>,
    /// The reason why the checks of the forge could not be read. If left out, they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Our runs for this commit, the newest first. Sub-agents are shown with the run that started them.
    pub runs: Vec<RunCheck>,
    /// Runs that cannot be read and that are, or may be, for this commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRun>,
}

/// A run that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRun {
    /// The name of the run.
    pub run: String,
    /// The reason why it cannot be read.
    pub why: String,
}

/// A check of the forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgeCheck {
    /// The ID of the check.
    pub id: String,
    /// The name of the check.
    pub name: String,
    /// The name of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The conclusion. If left out, the check is still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
}

/// A run, shown as a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCheck {
    /// The name of the run.
    pub run: String,
    /// The phase of the run.
    pub phase: RunPhase,
    /// The name of the AgentStack.
    pub agent_stack: String,
    /// The kind of task.
    pub task_kind: String,
    /// The name of the AgentTriggerRule that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<String>,
    /// When its agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// The reason why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
}
