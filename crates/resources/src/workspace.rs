//! Workspaces: how they are created and kept, and the state of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DefinitionStatus, Fault, Kind, Moment, Resource, Span, TrustTier};

/// How workspaces are created and retained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWorkspacePolicy {
    /// When a new workspace is created.
    pub mode: WorkspaceMode,
    /// How long a workspace is kept.
    pub retention_policy: RetentionPolicy,
    /// Files that are copied from the checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    /// Commands that prepare a new workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
}

/// When a new workspace is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceMode {
    /// For each run.
    PerRun,
    /// For each work item: a later run takes over the files that an earlier one has left.
    PerWorkItem,
}

/// How long a workspace is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetentionPolicy {
    /// The time after its last use, such as `7d`. A dirty or pinned workspace is kept longer.
    pub keep_for: Span,
}

impl Resource for AgentWorkspacePolicy {
    const KIND: Kind = Kind::AgentWorkspacePolicy;
    type Status = DefinitionStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A git worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWorkspace {
    /// The repository, as `owner/name`.
    pub repository: String,
    /// The path of the worktree.
    pub workspace_path: String,
    /// The purpose of the workspace.
    pub ownership: Ownership,
    /// The branch of the worktree.
    pub branch: String,
    /// The branch that it will be merged into.
    pub target_branch: String,
    /// The trust tier of its origin.
    pub trust_tier: TrustTier,
    /// The name of the AgentWorkspacePolicy that it was created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The work item that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<super::WorkItemRef>,
    /// If true, it is kept until it is unpinned.
    #[serde(default)]
    pub pinned: bool,
    /// Notes by people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The ID of the agent run in the ledger that works in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The purpose of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// A person created or linked it.
    Host,
    /// Work on an issue.
    Issue,
    /// Repair of a pull request.
    PrRepair,
    /// Work on a failed pipeline.
    PipelineFailure,
    /// A run that a person started.
    ManualDispatch,
    /// Other work of a project.
    Project,
}

/// The state of a workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceState {
    /// A run uses it.
    Active,
    /// No run uses it.
    #[default]
    Idle,
    /// Its files were removed; its branch is kept.
    Archived,
    /// Its files are missing for an unknown reason.
    Missing,
}

/// The state of a workspace relative to its target branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RebaseState {
    /// The target branch has new commits.
    RebaseNeeded,
    /// A rebase has conflicts that must be resolved.
    RebaseConflicts,
    /// It is up to date and can be reviewed.
    ReadyForReview,
    /// It is up to date, verified and committed, and can be merged.
    ReadyForMerge,
}

/// The rebase of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebaseSurface {
    /// The state of the rebase.
    pub state: RebaseState,
    /// The target branch.
    pub target_branch: String,
    /// How often a rebase was started.
    pub attempt_count: u32,
    /// Files with unresolved conflicts.
    #[serde(default)]
    pub unresolved_files: Vec<String>,
    /// Files with resolved conflicts.
    #[serde(default)]
    pub resolved_files: Vec<String>,
}

/// The git status of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GitStatus {
    /// The current branch.
    pub branch: String,
    /// The current commit.
    pub head: String,
    /// The upstream branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
    /// The number of commits that the target branch does not have.
    pub ahead: u64,
    /// The number of commits of the target branch that the workspace does not have.
    pub behind: u64,
    /// Whether there are uncommitted changes.
    pub dirty: bool,
    /// The number of files with uncommitted changes.
    pub uncommitted_count: u64,
    /// Files with conflicts.
    pub conflicting_files: Vec<String>,
    /// Whether the worktree is missing.
    pub missing: bool,
}

/// The status of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentWorkspaceStatus {
    /// The state.
    pub state: WorkspaceState,
    /// The git status.
    pub git: GitStatus,
    /// The rebase, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebase: Option<RebaseSurface>,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Moment>,
    /// The names of the runs that worked in it.
    pub runs: Vec<String>,
}

impl Resource for AgentWorkspace {
    const KIND: Kind = Kind::AgentWorkspace;
    type Status = AgentWorkspaceStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
