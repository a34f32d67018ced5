//! Worktrees, as the control plane has them inspected, created, archived, restored and rebased.

use bailiwick_resources::GitStatus;
use thiserror::Error;

/// The directory and branches of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePlace {
    /// The directory.
    pub path: String,
    pub branch: String,
    /// The branch that it will be merged into.
    pub target: String,
}

/// The worktree of a run of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunWorktree {
    /// The directory.
    pub path: String,
    pub branch: String,
    pub origin: WorktreeOrigin,
}

/// The source of the files of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeOrigin {
    /// The base commit.
    New,
    /// The base commit, though the run could have had the files of an earlier one; and why it has not.
    NotReused(String),
    /// An earlier run of the ledger.
    TakenOver(String),
}

/// An operation on the files of a workspace. Each can be repeated after an interruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceOperation {
    /// Only inspects it.
    Look,
    /// Creates a worktree on a new branch.
    Provision {
        /// The commit.
        base: String,
    },
    /// Inspects an existing worktree on any branch.
    Link,
    /// Removes the files; uncommitted changes are saved first.
    Archive {
        /// Whether ignored files may be lost.
        discard_ignored: bool,
    },
    /// Removes the files; refused if there are uncommitted changes.
    Cleanup {
        /// Whether ignored files may be lost.
        discard_ignored: bool,
    },
    /// Restores the files.
    Recover,
    /// Rebases the branch onto its target.
    RebaseStart,
    /// Resolves conflicts as they were resolved before.
    RebaseAutoResolve,
    /// Continues with the conflicts that a person has resolved.
    RebaseMarkResolved,
    RebaseAbort,
}

/// The state of the files after an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceReport {
    /// The resolved directory.
    pub path: String,
    /// The state of git.
    pub git: GitStatus,
    /// Whether a rebase is under way.
    pub rebasing: bool,
    /// The ref with the saved uncommitted changes, if there are any.
    pub kept: Option<String>,
    pub said: String,
}

/// Why an operation was not performed. No files were lost.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// It is not allowed in this state.
    #[error("{reason}; {instead}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do instead.
        instead: String,
    },
    /// Internal error.
    #[error("{0}")]
    Failed(String),
}
