//! Git and forges: repositories, files of commits and directories, workspaces, agents' work.

pub mod directory;
pub mod forge;
pub mod git;

pub use directory::DirectoryTree;
pub use git::{
    CommitTree, Git, GitError, GitWork, Repository, SetupRunner, SpawnLock, WorktreeWorkspaces,
    recover, run_setup,
};
