//! What people do with workspaces, done with real git, and never at the price of files.
//!
//! ```text
//! places   where a workspace is, and whether it is ours to take away; the lock of one verb
//! status   what git says of it
//! rescue   everything that is not committed, as one commit under refs/bailiwick/rescue/
//! away     archive, cleanup, recover       rebase   start, settle, abort
//! ```
//!
//! Files go in three steps, each of which can be the last one before a kill:
//!
//! ```text
//! <root>/<name> ──rename──▶ <root>/.removing/<name> ──rename──▶ <root>/.removed/<name> ──▶ gone
//!                           whole; recover puts it back          rescued; nobody needs it
//! ```

mod away;
mod deeds;
mod places;
mod rebase;
mod rescue;
mod status;

use std::path::{Path, PathBuf};

use bailiwick_resources::GitStatus;
use thiserror::Error;

use super::{Git, GitError, Input, Repository};
use places::{Held, Place};
pub use rebase::Rebase;

/// Why a verb was not carried out.
#[derive(Debug, Error)]
pub enum VerbError {
    /// It would not be right.
    #[error("{reason}; {instead}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do instead.
        instead: String,
    },
    /// Git did not do it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file or directory did not let itself be used.
    #[error("{what}: {why}")]
    File {
        /// What.
        what: String,
        /// What the system said.
        why: String,
    },
}

/// What happens to files that git ignores when a workspace is put away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// They are rescued with the rest; too many of them are a refusal.
    Keep,
    /// They can be made again.
    Discard,
}

/// A workspace as it was recorded.
#[derive(Debug, Clone, Copy)]
pub struct Workspace<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// The branch it is on.
    pub branch: &'a str,
    /// The branch it is to be merged into.
    pub target: &'a str,
}

/// What was put away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutAway {
    /// The reference that has what was not committed, if there was anything.
    pub rescued: Option<String>,
}

/// From where the files of a workspace came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameBack {
    /// They were still there, whole.
    AsTheyWere,
    /// From the branch.
    FromBranch,
    /// From the branch, with what had not been committed.
    WithRescued,
}

/// The workspaces of one repository.
#[derive(Debug, Clone)]
pub struct WorkspaceVerbs {
    repository: Repository,
    root: PathBuf,
    state: PathBuf,
}

impl WorkspaceVerbs {
    /// The workspaces of the repository that `checkout` is in; those that may be taken away are
    /// directly below `root`. What only we write is below `state`.
    pub fn new(checkout: &Path, root: &Path, state: &Path) -> Result<Self, VerbError> {
        let repository = Repository::discover(checkout).ok_or_else(|| {
            let reason = format!("{} is in no repository", checkout.display());
            refused(reason, "name a checkout")
        })?;
        let root = places::make_root(root)?;
        Ok(Self { repository, root, state: state.to_owned() })
    }

    /// Makes a workspace: a worktree on a branch of its own, from `base`. Doing so twice is doing it
    /// once.
    pub fn provision(&self, workspace: &Workspace<'_>, base: &str) -> Result<GitStatus, VerbError> {
        away::provision(&self.hold(workspace)?, base)?;
        self.status(workspace)
    }

    /// Takes a worktree that is there already for a workspace; it must be one of this repository.
    pub fn link(&self, path: &Path, target: &str) -> Result<GitStatus, VerbError> {
        let branch = places::branch_of(&self.repository, path)?;
        self.status(&Workspace { path, branch: &branch, target })
    }

    /// What git says of a workspace.
    pub fn status(&self, workspace: &Workspace<'_>) -> Result<GitStatus, VerbError> {
        status::observe(&self.repository, workspace)
    }

    /// Whether a rebase is under way in it.
    pub fn is_rebasing(&self, workspace: &Workspace<'_>) -> Result<bool, VerbError> {
        rebase::is_under_way(workspace)
    }

    /// Takes the files away and keeps the branch; what is not committed is rescued first.
    pub fn archive(
        &self,
        workspace: &Workspace<'_>,
        ignored: Ignored,
    ) -> Result<PutAway, VerbError> {
        away::put_away(&self.hold(workspace)?, ignored, away::Dirty::Rescued)
    }

    /// Takes the files away, and keeps the branch; what is not committed forbids it.
    pub fn cleanup(
        &self,
        workspace: &Workspace<'_>,
        ignored: Ignored,
    ) -> Result<PutAway, VerbError> {
        away::put_away(&self.hold(workspace)?, ignored, away::Dirty::Refused)
    }

    /// Brings the files back.
    pub fn recover(&self, workspace: &Workspace<'_>) -> Result<CameBack, VerbError> {
        away::recover(&self.hold(workspace)?)
    }

    /// Puts the branch on top of its target, as far as that goes without a person.
    pub fn rebase_start(&self, workspace: &Workspace<'_>) -> Result<Rebase, VerbError> {
        rebase::start(&self.hold(workspace)?)
    }

    /// Settles what was settled before in the same way; nothing is guessed.
    pub fn rebase_auto_resolve(&self, workspace: &Workspace<'_>) -> Result<Rebase, VerbError> {
        rebase::auto_resolve(&self.hold(workspace)?)
    }

    /// Goes on with files whose conflicts a person has settled.
    pub fn rebase_mark_resolved(&self, workspace: &Workspace<'_>) -> Result<Rebase, VerbError> {
        rebase::mark_resolved(&self.hold(workspace)?)
    }

    /// Puts everything back to where it was before the rebase. What had been settled by hand is kept
    /// under the reference that is given back.
    pub fn rebase_abort(&self, workspace: &Workspace<'_>) -> Result<Option<String>, VerbError> {
        rebase::abort(&self.hold(workspace)?)
    }

    /// The files that wait for somebody, to be opened in an editor.
    pub fn rebase_open_in_editor(
        &self,
        workspace: &Workspace<'_>,
    ) -> Result<Vec<PathBuf>, VerbError> {
        let status = self.status(workspace)?;
        Ok(status.conflicting_files.iter().map(|file| workspace.path.join(file)).collect())
    }

    fn hold<'a>(&'a self, workspace: &Workspace<'a>) -> Result<Held<'a>, VerbError> {
        let place = Place::of(&self.root, workspace)?;
        Held::take(&self.repository, &self.state, place)
    }
}

fn refused(reason: impl Into<String>, instead: &str) -> VerbError {
    VerbError::Refused { reason: reason.into(), instead: instead.to_owned() }
}

fn file(what: &Path) -> impl FnOnce(std::io::Error) -> VerbError {
    let what = what.display().to_string();
    move |error| VerbError::File { what, why: error.to_string() }
}
