//! Git and forges: repositories, files of commits and directories, workspaces, agents' work.

mod back_off;
pub mod directory;
pub mod forge;
pub mod git;
pub mod issues;
mod loopback;

pub use directory::DirectoryTree;
pub use git::{
    CommitTree, Git, GitError, GitWork, Repository, SetupRunner, SpawnLock, WorktreeWorkspaces,
    recover, run_setup,
};
