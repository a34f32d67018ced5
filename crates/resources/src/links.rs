//! What joins work items with sessions and workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, Resource};

/// Something that work is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemRef {
    /// What it is.
    pub kind: WorkItemKind,
    /// The repository.
    pub repository: String,
    /// Its number or name.
    pub id: String,
}

/// What a work item is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WorkItemKind {
    /// An issue.
    Issue,
    /// A pull request.
    PullRequest,
    /// A failed check.
    CheckFailure,
    /// A task of a release.
    ReleaseTask,
    /// A card of our own.
    Card,
}

/// How a link came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSource {
    /// The workspace or session was made for the work item.
    CreatedFromWorkItem,
    /// A workspace that was there was linked.
    LinkedExistingWorkspace,
    /// A session that was there was linked.
    LinkedSession,
    /// A rule did it.
    AutomationDerived,
}

/// Joins a work item and a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemSessionLink {
    /// The work item.
    pub work_item_ref: WorkItemRef,
    /// The session.
    pub session_ref: String,
    /// The runs.
    #[serde(default)]
    pub run_refs: Vec<String>,
    /// How it came to be.
    pub link_source: LinkSource,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Who did it.
    pub created_by: String,
}

/// Joins a work item and a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemWorkspaceLink {
    /// The work item.
    pub work_item_ref: WorkItemRef,
    /// The workspace.
    pub workspace_ref: String,
    /// The runs.
    #[serde(default)]
    pub run_refs: Vec<String>,
    /// How it came to be.
    pub link_source: LinkSource,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Who did it.
    pub created_by: String,
}

/// What is known of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LinkStatus {
    /// When something last happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Moment>,
}

impl Resource for WorkItemSessionLink {
    const KIND: Kind = Kind::WorkItemSessionLink;
    type Status = LinkStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

impl Resource for WorkItemWorkspaceLink {
    const KIND: Kind = Kind::WorkItemWorkspaceLink;
    type Status = LinkStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
