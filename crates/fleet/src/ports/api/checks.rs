//! What is known of a commit: the forge's checks, and our runs beside them.

use bailiwick_resources::{Moment, RunPhase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The checks of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChecksAnswer {
    /// The repository.
    pub repository: String,
    /// The commit.
    pub sha: String,
    /// The forge's.
    pub checks: Vec<ForgeCheck>,
    /// Why the forge's are not there, if they could not be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Ours, the newest first. Sub-agents are shown with the run that started them.
    pub runs: Vec<RunCheck>,
    /// Ours that nobody can read, and that are about this commit or may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRun>,
}

/// A run of ours that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRun {
    /// The run.
    pub run: String,
    /// Why.
    pub why: String,
}

/// A check of the forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgeCheck {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// How it ended; nothing while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
}

/// A run of ours, as a check is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCheck {
    /// The run.
    pub run: String,
    /// How far it is.
    pub phase: RunPhase,
    /// The stack.
    pub agent_stack: String,
    /// What it is for.
    pub task_kind: String,
    /// The rule that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<String>,
    /// When its agent began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Moment>,
    /// Why it ended as it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
}
