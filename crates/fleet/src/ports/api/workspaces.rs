//! Workspaces: operations and results.

use bailiwick_resources::{RebaseState, WorkItemRef, WorkspaceState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkspaceVerb;

/// A request for an action on a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceRequest {
    /// The action.
    pub action: WorkspaceVerb,
    /// The name of a new workspace. If left out, one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The repository of a new workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch or ref that a new workspace starts from, or the target branch of a linked worktree.
    /// If left out, the default branch.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The path of the existing worktree that is linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The work item that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<WorkItemRef>,
    /// The notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// If true, files that git ignores may be deleted when the files of the workspace are removed. The default is
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard_ignored: bool,
    /// The reason for the audit log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The expected resource version of the workspace. If it is another one, the request is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

impl WorkspaceRequest {
    /// A request with only an action.
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

/// The state of a workspace after an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceAnswer {
    /// Whether the action was done.
    pub accepted: bool,
    /// The name of the workspace.
    pub workspace: String,
    /// The state.
    pub state: WorkspaceState,
    /// The state relative to the target branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebase: Option<RebaseState>,
    /// The paths of files with unresolved conflicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The git ref with the uncommitted changes, if some were saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// A message for people.
    pub message: String,
}
