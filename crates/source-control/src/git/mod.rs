//! Git, by its command line.

mod bundle;
mod checkout_health;
mod command;
mod commit_tree;
mod fetch;
mod free_space;
mod identity;
pub(crate) mod issue_operation;
mod listing;
mod memory_refs;
mod push;
mod quarantine;
mod refs;
mod remote;
mod remote_refs;
mod repository;
mod retained_commits;
mod take_over;
mod timeout;
pub mod version;
mod work;
mod workspace_operations;
mod workspaces;
mod worktree_list;

pub use bundle::{
    BundleError, MAX_KNOWN_COMMITS, create_bundle, existing_commits, is_object_name,
    temporary_file, unpack_bundle, unpack_bundle_file, write_bundle,
};
pub use checkout_health::{CheckoutProblem, checkout_problem};
pub use command::{Git, GitError, GitOutput, Input, remove_git_variables};
pub(crate) use commit_tree::Batch;
pub use commit_tree::CommitTree;
pub(crate) use fetch::fetch;
pub(crate) use identity::committer;
pub use listing::{CommittedFiles, Listing};
pub(crate) use memory_refs::ISSUE_REFS;
pub(crate) use push::{push, remote_branch};
pub use quarantine::Quarantine;
pub(crate) use refs::resolve_ref;
pub(crate) use remote::{Refusal, Remote, RemoteError};
pub(crate) use remote_refs::{read_message, set_reference, swap_message};
pub use repository::{Difference, DifferenceKind, HeadError, Repository};
pub use retained_commits::{release_commit, retain_commit, retained_commits};
pub use take_over::take_over_obstacle;
pub use work::REJECTED_MARKER;
pub use work::{
    BaseBranch, GitWork, HeadLog, ImportLimits, Imported, ReceiveError, Recovery, RollbackPlan,
    SpawnRecord, TreeSize, ignore_rules, new_files, record_spawn, recover, untracked,
};
pub use workspace_operations::{
    Archived, IgnoredFiles, OperationError, RebaseOutcome, RestoredFrom, Workspace, WorkspaceHold,
    WorkspaceOperations,
};
pub use workspaces::{SetupRunner, SpawnLock, WorktreeWorkspaces, run_setup};
