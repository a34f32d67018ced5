//! Worktrees, as the control plane has them inspected, created, archived, restored and rebased.

use bailiwick_resources::GitStatus;
use thiserror::Error;

/// Where the files of a workspace are, and what they are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePlace {
    /// The directory.
    pub path: String,
    /// The branch it is on.
    pub branch: String,
    /// The branch it is to be merged into.
    pub target: String,
}

/// An operation on the files of a workspace. Each can be repeated after it was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceOperation {
    /// Only looking.
    Look,
    /// A worktree on a new branch, from this commit.
    Provision {
        /// The commit.
        base: String,
    },
    /// Looking at a worktree that somebody else has made; it is on whatever branch it is on.
    Link,
    /// The files go; what is not committed is rescued first.
    Archive {
        /// Whether what git ignores need not be.
        discard_ignored: bool,
    },
    /// The files go; what is not committed forbids it.
    Cleanup {
        /// Whether what git ignores need not be kept.
        discard_ignored: bool,
    },
    /// The files come back.
    Recover,
    /// The branch is put on top of its target.
    RebaseStart,
    /// What was settled before is settled in the same way.
    RebaseAutoResolve,
    /// What a person has settled is taken, and the rebase goes on.
    RebaseMarkResolved,
    /// Back to where it was.
    RebaseAbort,
}

/// The state of the files after an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceReport {
    /// The directory, with nothing in its name that leads elsewhere.
    pub path: String,
    /// What git says.
    pub git: GitStatus,
    /// Whether a rebase is under way.
    pub rebasing: bool,
    /// The reference that has what was not committed, if something was kept so.
    pub kept: Option<String>,
    /// What was done, for people.
    pub said: String,
}

/// Why an operation was not done. Nothing was lost.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkspaceError {
    /// It would not be right.
    #[error("{reason}; {instead}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do instead.
        instead: String,
    },
    /// It did not work.
    #[error("{0}")]
    Failed(String),
}
