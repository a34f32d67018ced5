//! Links between work items, sessions and workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, Resource};

/// A reference to a work item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemRef {
    /// The kind of work item.
    pub kind: WorkItemKind,
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The number or name of the work item.
    pub id: String,
}

/// The kind of a work item.
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
    /// A card that the control plane created.
    Card,
}

/// How a link was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSource {
    /// The workspace or session was created for the work item.
    CreatedFromWorkItem,
    /// An existing workspace was linked.
    LinkedExistingWorkspace,
    /// An existing session was linked.
    LinkedSession,
    /// A rule created it.
    AutomationDerived,
}

/// A link between a work item and a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemSessionLink {
    /// The work item.
    pub work_item_ref: WorkItemRef,
    /// The name of the session.
    pub session_ref: String,
    /// The names of the runs.
    #[serde(default)]
    pub run_refs: Vec<String>,
    /// How the link was created.
    pub link_source: LinkSource,
    /// The name of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Who created the link.
    pub created_by: String,
}

/// A link between a work item and a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkItemWorkspaceLink {
    /// The work item.
    pub work_item_ref: WorkItemRef,
    /// The name of the workspace.
    pub workspace_ref: String,
    /// The names of the runs.
    #[serde(default)]
    pub run_refs: Vec<String>,
    /// How the link was created.
    pub link_source: LinkSource,
    /// The name of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// Who created the link.
    pub created_by: String,
}

/// The status of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LinkStatus {
    /// The time of the last activity.
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
