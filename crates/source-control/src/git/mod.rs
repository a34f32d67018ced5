//! Git, by its command line.

mod command;
mod commit_tree;
mod fetch;
mod identity;
mod listing;
mod push;
mod refs;
mod remote;
mod repository;
mod retained_commits;
mod timeout;
pub mod version;
mod work;
mod workspace_operations;
mod workspaces;
mod worktree_list;

pub use command::{Git, GitError, GitOutput, Input, remove_git_variables};
pub use commit_tree::CommitTree;
pub(crate) use fetch::fetch;
pub use listing::{CommittedFiles, Listing};
pub(crate) use push::{push, remote_branch};
pub(crate) use remote::{Remote, RemoteError};
pub use repository::{Difference, DifferenceKind, HeadError, Repository};
pub use retained_commits::{release_commit, retain_commit, retained_commits};
pub use work::REJECTED_MARKER;
pub use work::{
    BaseBranch, GitWork, HeadLog, ImportLimits, Imported, Recovery, RollbackPlan, SpawnRecord,
    ignore_rules, new_files, record_spawn, recover, untracked,
};
pub use workspace_operations::{
    Archived, IgnoredFiles, OperationError, RebaseOutcome, RestoredFrom, Workspace,
    WorkspaceOperations,
};
pub use workspaces::{SetupRunner, SpawnLock, WorktreeWorkspaces, run_setup};
