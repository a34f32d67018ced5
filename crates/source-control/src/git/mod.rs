//! Git by its command line, behind one wrapper.

mod command;
mod commit_tree;
mod fetch;
mod listing;
mod patience;
mod push;
mod repository;
mod verbs;
pub mod version;
mod work;
mod workspaces;

pub use command::{Ended, Git, GitError, Input, forget_repository};
pub use commit_tree::CommitTree;
pub(crate) use fetch::fetch;
pub use fetch::{fetched, hold, let_go};
pub use listing::{Committed, Listing};
pub(crate) use push::{Destination, NotPushed, push, where_is};
pub use repository::{Difference, NoHead, Repository};
pub use verbs::{CameBack, Ignored, PutAway, Rebase, VerbError, Workspace, WorkspaceVerbs};
pub use work::REJECTED;
pub use work::{
    BaseBranch, GitWork, HeadLog, ImportLimits, Imported, Recovered, RollbackPlan, SpawnRecord,
    ignore_rules, new_files, record_spawn, recover, untracked,
};
pub use workspaces::{SetupRunner, SpawnLock, WorktreeWorkspaces, run_setup};
