//! Workspaces: what is to be done with them, and how they stand after it.

use bailiwick_resources::{RebaseState, WorkItemRef, WorkspaceState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkspaceVerb;

/// What is to be done to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceRequest {
    /// What.
    pub action: WorkspaceVerb,
    /// The name of a new one; made up when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The repository, for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch or ref that it begins from or is rebased onto.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The worktree that is to be linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<WorkItemRef>,
    /// The notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Whether what git ignores may go for good when the files are put away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard_ignored: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The version that the workspace must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

impl WorkspaceRequest {
    /// This, and nothing more said.
    pub fn of(action: WorkspaceVerb) -> Self {
        Self {
            action,
            name: None,
            repository: None,
            reference: None,
            path: None,
            work_item: None,
            notes: None,
            discard_ignored: false,
            reason: String::new(),
            expected_version: None,
        }
    }
}

/// How a workspace stands after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceAnswer {
    /// Whether it was done.
    pub accepted: bool,
    /// The workspace.
    pub workspace: String,
    /// How it stands.
    pub state: WorkspaceState,
    /// How far it is on its way to its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebase: Option<RebaseState>,
    /// Files whose conflicts wait for somebody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The reference that has what was not committed, if something was kept so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// What was done, for people.
    pub message: String,
}
