//! Operations on workspaces that people ask for. None of them loses a file.
//!
//! ```text
//! perform            operations as the control plane requests them
//! locked_workspace   the paths of a workspace, and the lock that each operation takes
//! status             the state of the worktree
//! rescue             all uncommitted changes as one commit under refs/bailiwick/rescue/
//! archive            provision, archive, cleanup, recover
//! rebase             start, resolve, abort
//! ```
//!
//! Files are removed in three steps, so that a kill at any moment loses nothing:
//!
//! ```text
//! <root>/<name> ──rename──▶ <root>/.removing/<name> ──rename──▶ <root>/.removed/<name> ──▶ deleted
//!                           complete; recover moves it back      rescued, not needed any more
//! ```

mod archive;
mod locked_workspace;
mod perform;
mod rebase;
mod rescue;
mod status;

use std::fs::File;
use std::path::{Path, PathBuf};

use bailiwick_resources::GitStatus;
use thiserror::Error;

use super::{Git, GitError, Input, Repository};
use locked_workspace::{LockedWorkspace, ManagedWorkspace};
pub use rebase::RebaseOutcome;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum OperationError {
    /// It is not allowed in this state.
    #[error("{reason}; {instead}")]
    Refused {
        /// What forbids it.
        reason: String,
        /// What to do instead.
        instead: String,
    },
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file or directory cannot be used.
    #[error("{what}: {why}")]
    File {
        /// Its path.
        what: String,
        /// The error of the operating system.
        why: String,
    },
}

/// What happens to files that git ignores when a workspace is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredFiles {
    /// They are rescued; the operation is refused if there are too many.
    Keep,
    /// They are deleted.
    Discard,
}

/// A workspace in the records of the control plane.
#[derive(Debug, Clone, Copy)]
pub struct Workspace<'a> {
    /// Its directory.
    pub path: &'a Path,
    /// Its branch.
    pub branch: &'a str,
    /// The commit that it is to be merged with: the tip of its target on the forge. Local branches can be old.
    pub target: Option<&'a str>,
}

/// The result of archiving a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The reference with the uncommitted changes, if there were any.
    pub rescue_ref: Option<String>,
}

/// How the files of a workspace were restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredFrom {
    /// They were still on disk.
    Disk,
    /// From the branch.
    Branch,
    /// From the branch, with the rescued changes.
    BranchAndRescue,
}

/// The lock of a workspace whose files are given to another run.
pub struct WorkspaceHold {
    /// The directory.
    pub path: PathBuf,
    _lock: File,
}

/// Operations on the workspaces of one repository.
#[derive(Debug, Clone)]
pub struct WorkspaceOperations {
    repository: Repository,
    root: PathBuf,
    state: PathBuf,
}

impl WorkspaceOperations {
    /// Workspaces of the repository that contains `checkout`. Only those directly below `root` can be
    /// removed. `state` is the directory of Bailiwick's own files.
    pub fn new(checkout: &Path, root: &Path, state: &Path) -> Result<Self, OperationError> {
        let repository = Repository::discover(checkout).ok_or_else(|| {
            let reason = format!("{} is not in a repository", checkout.display());
            refused(reason, "name a checkout")
        })?;
        let root = locked_workspace::create_root(root)?;
        Ok(Self { repository, root, state: state.to_owned() })
    }

    /// Creates a workspace: a worktree on a branch of its own, from `base`. A second call does nothing.
    pub fn provision(
        &self,
        workspace: &Workspace<'_>,
        base: &str,
    ) -> Result<GitStatus, OperationError> {
        archive::provision(&self.lock(workspace)?, base)?;
        self.status(workspace)
    }

    /// Uses an existing worktree of this repository as a workspace.
    pub fn link(&self, path: &Path, target: Option<&str>) -> Result<GitStatus, OperationError> {
        let branch = locked_workspace::branch_of(&self.repository, path)?;
        self.status(&Workspace { path, branch: &branch, target })
    }

    /// The git status of a workspace.
    pub fn status(&self, workspace: &Workspace<'_>) -> Result<GitStatus, OperationError> {
        status::observe(&self.repository, workspace)
    }

    /// Whether a rebase is in progress.
    pub fn is_rebasing(&self, workspace: &Workspace<'_>) -> Result<bool, OperationError> {
        rebase::is_in_progress(workspace)
    }

    /// Removes the files and keeps the branch; uncommitted changes are rescued first.
    pub fn archive(
        &self,
        workspace: &Workspace<'_>,
        ignored: IgnoredFiles,
    ) -> Result<Archived, OperationError> {
        archive::archive(&self.lock(workspace)?, ignored, archive::UncommittedChanges::Rescue)
    }

    /// Removes the files and keeps the branch; refused if there are uncommitted changes.
    pub fn cleanup(
        &self,
        workspace: &Workspace<'_>,
        ignored: IgnoredFiles,
    ) -> Result<Archived, OperationError> {
        archive::archive(&self.lock(workspace)?, ignored, archive::UncommittedChanges::Refuse)
    }

    /// Restores the files.
    pub fn recover(&self, workspace: &Workspace<'_>) -> Result<RestoredFrom, OperationError> {
        archive::recover(&self.lock(workspace)?)
    }

    /// Rebases the branch onto its target, up to the first conflict.
    pub fn rebase_start(&self, workspace: &Workspace<'_>) -> Result<RebaseOutcome, OperationError> {
        rebase::start(&self.lock(workspace)?)
    }

    /// Resolves conflicts that a person has resolved before, in the same way.
    pub fn rebase_auto_resolve(
        &self,
        workspace: &Workspace<'_>,
    ) -> Result<RebaseOutcome, OperationError> {
        rebase::auto_resolve(&self.lock(workspace)?)
    }

    /// Continues after a person has resolved the conflicts.
    pub fn rebase_mark_resolved(
        &self,
        workspace: &Workspace<'_>,
    ) -> Result<RebaseOutcome, OperationError> {
        rebase::mark_resolved(&self.lock(workspace)?)
    }

    /// Undoes the rebase. Conflicts that were resolved by hand are kept under the returned reference.
    pub fn rebase_abort(
        &self,
        workspace: &Workspace<'_>,
    ) -> Result<Option<String>, OperationError> {
        rebase::abort(&self.lock(workspace)?)
    }

    /// Keeps every other operation from this workspace until the result is dropped.
    pub fn hold(&self, name: &str) -> Result<WorkspaceHold, OperationError> {
        let path = self.root.join(name);
        let (lock, _) = locked_workspace::take_lock(&self.state, &path)?;
        Ok(WorkspaceHold { path, _lock: lock })
    }

    fn lock<'a>(
        &'a self,
        workspace: &Workspace<'a>,
    ) -> Result<LockedWorkspace<'a>, OperationError> {
        let managed = ManagedWorkspace::of(&self.root, workspace)?;
        LockedWorkspace::acquire(&self.repository, &self.state, managed)
    }
}

fn refused(reason: impl Into<String>, instead: &str) -> OperationError {
    OperationError::Refused { reason: reason.into(), instead: instead.to_owned() }
}

fn file(what: &Path) -> impl FnOnce(std::io::Error) -> OperationError {
    let what = what.display().to_string();
    move |error| OperationError::File { what, why: error.to_string() }
}
