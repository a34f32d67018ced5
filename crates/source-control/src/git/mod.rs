//! Git by its command line, behind one wrapper.

mod command;
mod commit_tree;
mod listing;
mod repository;
mod workspaces;

pub use command::{Git, GitError, Input, forget_repository};
pub use commit_tree::CommitTree;
pub use listing::{Committed, Listing};
pub use repository::{Difference, Repository};
pub use workspaces::{SpawnLock, WorktreeWorkspaces};
