//! Work that was done on another machine: it leaves as a bundle there, and is put into the agent's worktree here.

use std::io;

use bailiwick_lifecycle::ports::{Snapshot, WorkError};
use bailiwick_model::CommitId;
use thiserror::Error;

use super::tree_size::TreeSize;
use super::{GitWork, disabled_filters, work_error};
use crate::git::bundle::{self, BundleError, create_bundle};
use crate::git::command::{Git, GitError};

/// Trees up to this size are accepted on every base. On a larger base, they may be twice as large as that.
const MAX_TREE: TreeSize = TreeSize { entries: 200_000, bytes: 2 * 1024 * 1024 * 1024 };
/// What git says of names that no file system here can have.
const NAME_TOO_LONG: &str = "File name too long";

/// Why work was not put into the worktree of its agent.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// Its files would take too much of the disk.
    #[error(
        "the files of {commit} are too large: at most {} entries with {} bytes are accepted",
        .limit.entries,
        .limit.bytes
    )]
    TooLarge {
        /// The commit with the files.
        commit: CommitId,
        /// What is accepted.
        limit: TreeSize,
    },
    /// It cannot be written.
    #[error(transparent)]
    Work(#[from] WorkError),
}

impl GitWork {
    /// The commits of a snapshot since `base`, as a bundle.
    pub fn bundle(
        &self,
        work: &Snapshot,
        base: &CommitId,
        limit: usize,
    ) -> Result<Vec<u8>, BundleError> {
        let git = self
            .object_git(&work.tree)
            .map_err(|error| BundleError::Unreadable(error.to_string()))?;
        create_bundle(&git, &[work.head.as_str(), work.commit.as_str()], &[base.as_str()], limit)
    }

    /// Fails if the files of received work would take too much of the disk. `git` sees its objects.
    pub fn require_accepted_sizes(
        &self,
        git: &Git,
        base: &CommitId,
        (head, commit): (&CommitId, &CommitId),
    ) -> Result<(), ReceiveError> {
        require_accepted_size(git, base, commit)?;
        if head != commit {
            require_accepted_size(git, base, head)?;
        }
        Ok(())
    }

    /// Puts work into the worktree as its agent left it: its branch is at `head`, its files are those of
    /// `commit`. No program that the repository names is run.
    pub fn receive(&self, head: &CommitId, commit: &CommitId) -> Result<(), ReceiveError> {
        self.remove_stale_index_lock().map_err(work_error(self.not_received()))?;
        let without = disabled_filters::without_filters(&self.paths)
            .map_err(work_error(self.not_received()))?;
        let git = self.paths.worktree_git().with_settings(without).with_timeout(bundle::TIMEOUT);
        let git = git.with_settings([("submodule.recurse", "false")]);
        let steps: [&[&str]; 3] = [
            &["reset", "--hard", "--quiet", head.as_str()],
            &["read-tree", "--reset", "-u", commit.as_str()],
            &["reset", "--quiet", head.as_str()],
        ];
        for step in steps {
            git.run(step.iter().copied()).map_err(|error| self.not_written(&error))?;
        }
        Ok(())
    }

    /// A git that was stopped here before has left it; no agent uses this worktree.
    fn remove_stale_index_lock(&self) -> io::Result<()> {
        if self.paths.git_dir == self.paths.common_dir {
            return Ok(());
        }
        match std::fs::remove_file(self.paths.git_dir.join("index.lock")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn not_received(&self) -> String {
        format!("the work cannot be put into {}", self.paths.worktree.display())
    }

    fn not_written(&self, error: &GitError) -> WorkError {
        let why = error.to_string();
        let caused_by_work = why.contains(NAME_TOO_LONG);
        WorkError { what: self.not_received(), why, caused_by_work }
    }
}

fn require_accepted_size(
    git: &Git,
    base: &CommitId,
    commit: &CommitId,
) -> Result<(), ReceiveError> {
    let measure = |commit: &CommitId, limit: TreeSize| {
        let what = format!("the size of the files of {commit} cannot be read");
        TreeSize::measure(git, commit, limit).map_err(work_error(what))
    };
    if measure(commit, MAX_TREE)?.is_some() {
        return Ok(());
    }
    let of_base = measure(base, TreeSize::UNLIMITED)?.unwrap_or(MAX_TREE);
    let limit = MAX_TREE.max(of_base.doubled());
    match measure(commit, limit)? {
        Some(_) => Ok(()),
        None => Err(ReceiveError::TooLarge { commit: commit.clone(), limit }),
    }
}
