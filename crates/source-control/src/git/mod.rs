//! Git by its command line, behind one wrapper.

mod command;
mod commit_tree;
mod repository;
mod workspaces;

pub use command::{Git, GitError};
pub use commit_tree::CommitTree;
pub use repository::{Difference, Repository};
pub use workspaces::WorktreeWorkspaces;
