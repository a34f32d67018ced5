//! Git and forges: repositories, trees of commits and directories, workspaces.

pub mod directory;
pub mod forge;
pub mod git;

pub use directory::DirectoryTree;
pub use git::{
    CommitTree, Git, GitError, GitWork, Repository, SetupRunner, SpawnLock, WorktreeWorkspaces,
    recover, run_setup,
};
