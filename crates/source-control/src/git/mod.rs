//! Git by its command line, behind one wrapper.

mod command;
mod commit_tree;
mod fetch;
mod listing;
mod push;
mod refs;
mod remote;
mod repository;
mod retained_commits;
mod timeout;
mod verbs;
pub mod version;
mod work;
mod workspaces;
mod worktree_list;

pub use command::{Git, GitError, GitOutput, Input, remove_git_variables};
pub use commit_tree::CommitTree;
pub(crate) use fetch::fetch;
pub use listing::{Committed, Listing};
pub(crate) use push::{push, remote_branch};
pub(crate) use remote::{Remote, RemoteError};
pub use repository::{Difference, NoHead, Repository};
pub use retained_commits::{release_commit, retain_commit, retained_commits};
pub use verbs::{CameBack, Ignored, PutAway, Rebase, VerbError, Workspace, WorkspaceVerbs};
pub use work::REJECTED;
pub use work::{
    BaseBranch, GitWork, HeadLog, ImportLimits, Imported, Recovered, RollbackPlan, SpawnRecord,
    ignore_rules, new_files, record_spawn, recover, untracked,
};
pub use workspaces::{SetupRunner, SpawnLock, WorktreeWorkspaces, run_setup};
