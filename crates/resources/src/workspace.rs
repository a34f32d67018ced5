//! Workspaces: how they are made and kept, and what is known of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, Moment, NoStatus, Resource, Span, TrustTier};

/// How workspaces are made and kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWorkspacePolicy {
    /// When a new one is made.
    pub mode: WorkspaceMode,
    /// How long it is kept.
    pub retention_policy: RetentionPolicy,
    /// Files to copy from the checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    /// Commands that make it ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
}

/// When a new workspace is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceMode {
    /// For each run.
    PerRun,
    /// For each work item. Here each run has one of its own all the same, and says why.
    PerWorkItem,
}

/// How long a workspace is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetentionPolicy {
    /// After its last use, as `7d`; a dirty or pinned one is kept whatever stands here.
    pub keep_for: Span,
}

impl Resource for AgentWorkspacePolicy {
    const KIND: Kind = Kind::AgentWorkspacePolicy;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWorkspace {
    /// The repository.
    pub repository: String,
    /// Where it is.
    pub workspace_path: String,
    /// Why it is there.
    pub ownership: Ownership,
    /// The branch it is on.
    pub branch: String,
    /// The branch it is to be merged into.
    pub target_branch: String,
    /// How much its origin is trusted.
    pub trust_tier: TrustTier,
    /// The policy it was made by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_item: Option<super::WorkItemRef>,
    /// Whether it is kept until somebody says otherwise.
    #[serde(default)]
    pub pinned: bool,
    /// What people wrote about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The run of the ledger that works in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Why a workspace is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// A person has it.
    Host,
    /// An issue.
    Issue,
    /// A pull request is mended.
    PrRepair,
    /// A pipeline failed.
    PipelineFailure,
    /// A person asked for a run.
    ManualDispatch,
    /// A project.
    Project,
}

/// Whether a workspace can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceState {
    /// Somebody works in it.
    Active,
    /// Nobody does.
    #[default]
    Idle,
    /// It is put away: its branch is kept, its files are gone.
    Archived,
    /// Its files are gone and nobody knows why.
    Missing,
}

/// How far a workspace is on its way to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RebaseState {
    /// Its target has moved.
    RebaseNeeded,
    /// A rebase waits for somebody to settle conflicts.
    RebaseConflicts,
    /// It can be looked at.
    ReadyForReview,
    /// It can be merged.
    ReadyForMerge,
}

/// A rebase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebaseSurface {
    /// How far it is.
    pub state: RebaseState,
    /// Onto which branch.
    pub target_branch: String,
    /// How often it was tried.
    pub attempt_count: u32,
    /// Files with conflicts.
    #[serde(default)]
    pub unresolved_files: Vec<String>,
    /// Files whose conflicts were settled.
    #[serde(default)]
    pub resolved_files: Vec<String>,
}

/// What git says of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GitStatus {
    /// The branch.
    pub branch: String,
    /// The commit.
    pub head: String,
    /// What it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking: Option<String>,
    /// Commits that the target lacks.
    pub ahead: u64,
    /// Commits that it lacks.
    pub behind: u64,
    /// Whether anything is not committed.
    pub dirty: bool,
    /// How many files.
    pub uncommitted_count: u64,
    /// Files with conflicts.
    pub conflicting_files: Vec<String>,
    /// Whether it is gone.
    pub missing: bool,
}

/// What the control plane knows of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentWorkspaceStatus {
    /// Whether it can be used.
    pub state: WorkspaceState,
    /// What git says.
    pub git: GitStatus,
    /// Its rebase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebase: Option<RebaseSurface>,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Moment>,
    /// Runs that worked in it.
    pub runs: Vec<String>,
}

impl Resource for AgentWorkspace {
    const KIND: Kind = Kind::AgentWorkspace;
    type Status = AgentWorkspaceStatus;

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}
