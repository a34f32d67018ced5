//! Work that was done on another machine: it leaves as a bundle there, and is put into the agent's worktree here.

use std::io;
use std::path::Path;

use bailiwick_lifecycle::ports::{Snapshot, WorkError};
use bailiwick_model::CommitId;
use thiserror::Error;

use super::tree_size::{MAX_NAME_BYTES, MAX_PATH_BYTES, TreeSize};
use super::{GitWork, disabled_filters, work_error};
use crate::git::bundle::{self, BundleError, create_bundle};
use crate::git::command::{Git, GitError};
use crate::git::free_space::has_room;
use crate::git::quarantine::MAX_TREE_DEPTH;

/// Trees up to this size are accepted on every base. On a larger base, they may be twice as large as that.
const MAX_TREE: TreeSize = TreeSize { entries: 200_000, bytes: 2 * 1024 * 1024 * 1024 };

/// How much of a disk the smallest file can take.
const BLOCK_BYTES: u64 = 4_096;

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
    /// A path of it cannot be a file here.
    #[error(
        "a path of {commit} is too long: {path}; a name may have {MAX_NAME_BYTES} bytes and a path \
         {MAX_PATH_BYTES}"
    )]
    PathTooLong {
        /// The commit with the path.
        commit: CommitId,
        /// Its beginning.
        path: String,
    },
    /// Its files cannot be written, although there is room for them, and those of its base can be.
    #[error(transparent)]
    NotWritten(WorkError),
    /// Git cannot list its files, or takes too long for that.
    #[error(transparent)]
    NotListed(WorkError),
    /// It cannot be written.
    #[error(transparent)]
    Work(#[from] WorkError),
}

impl GitWork {
    /// The commits of a snapshot since `base`, as a bundle. It is written to a file in `directory` first.
    pub fn bundle(
        &self,
        work: &Snapshot,
        base: &CommitId,
        directory: &Path,
        limit: usize,
    ) -> Result<Vec<u8>, BundleError> {
        let git = self
            .object_git(&work.tree)
            .map_err(|error| BundleError::Unreadable(error.to_string()))?;
        let commits = [work.head.as_str(), work.commit.as_str()];
        create_bundle(&git, (&commits, &[base.as_str()]), directory, limit)
    }

    /// Fails if the files of received work would take too much of the disk, or cannot be files here. `git` sees its
    /// objects.
    pub fn require_accepted_files(
        &self,
        git: &Git,
        base: &CommitId,
        (head, commit): (&CommitId, &CommitId),
    ) -> Result<(), ReceiveError> {
        require_accepted(git, base, commit)?;
        if head != commit {
            require_accepted(git, base, head)?;
        }
        Ok(())
    }

    /// Puts work into the worktree as its agent left it: its branch is at `head`, its files are those of
    /// `commit`. No program that the repository names is run.
    pub fn receive(
        &self,
        base: &CommitId,
        (head, commit): (&CommitId, &CommitId),
    ) -> Result<(), ReceiveError> {
        self.remove_stale_index_lock().map_err(work_error(self.not_received()))?;
        let without = disabled_filters::without_filters(&self.paths)
            .map_err(work_error(self.not_received()))?;
        let git = self.paths.worktree_git().with_settings(without).with_timeout(bundle::TIMEOUT);
        let git = git.with_settings([("submodule.recurse", "false"), MAX_TREE_DEPTH]);
        let steps: [&[&str]; 3] = [
            &["reset", "--hard", "--quiet", head.as_str()],
            &["read-tree", "--reset", "-u", commit.as_str()],
            &["reset", "--quiet", head.as_str()],
        ];
        for step in steps {
            if let Err(error) = git.run(step.iter().copied()) {
                return Err(self.not_written(&git, (base, commit), &error));
            }
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

    /// Why files were not written. Git fails in the same way because of the files and because of this machine, so the
    /// machine is tried.
    fn not_written(
        &self,
        git: &Git,
        (base, commit): (&CommitId, &CommitId),
        error: &GitError,
    ) -> ReceiveError {
        let failure = work_error(self.not_received())(error);
        match error {
            GitError::Failed { .. } | GitError::TimedOut { .. }
                if self.can_write(git, base, commit) =>
            {
                ReceiveError::NotWritten(failure)
            }
            GitError::Failed { .. }
            | GitError::TimedOut { .. }
            | GitError::Missing { .. }
            | GitError::Unsupported(_)
            | GitError::UnexpectedOutput { .. }
            | GitError::Io { .. } => ReceiveError::Work(failure),
        }
    }

    /// Whether this machine has room for the files of a commit, and can write those of its base.
    fn can_write(&self, git: &Git, base: &CommitId, commit: &CommitId) -> bool {
        let has_room = match TreeSize::measure(git, commit, TreeSize::UNLIMITED) {
            Ok(Some(size)) => {
                // Each file takes whole blocks.
                let bytes = size.bytes.saturating_add(size.entries.saturating_mul(BLOCK_BYTES));
                has_room(&self.paths.worktree, size.entries, bytes).unwrap_or(false)
            }
            // The files of the base decide: git reads them on the same disk.
            Err(GitError::Failed { .. } | GitError::TimedOut { .. }) => true,
            Ok(None)
            | Err(
                GitError::Missing { .. }
                | GitError::Unsupported(_)
                | GitError::UnexpectedOutput { .. }
                | GitError::Io { .. },
            ) => false,
        };
        has_room && git.run(["reset", "--hard", "--quiet", base.as_str()]).is_ok()
    }
}

fn require_accepted(git: &Git, base: &CommitId, commit: &CommitId) -> Result<(), ReceiveError> {
    let size = accepted_size(git, base, commit)?;
    let what = format!("the paths of {commit} cannot be read");
    match size.find_long_path(git, commit).map_err(not_listed(what))? {
        None => Ok(()),
        Some(path) => Err(ReceiveError::PathTooLong { commit: commit.clone(), path }),
    }
}

/// Git fails in the same way because of the files and because of this machine.
fn not_listed(what: String) -> impl FnOnce(GitError) -> ReceiveError {
    move |error| {
        let failure = work_error(what)(&error);
        match error {
            GitError::Failed { .. }
            | GitError::TimedOut { .. }
            | GitError::UnexpectedOutput { .. } => ReceiveError::NotListed(failure),
            GitError::Missing { .. } | GitError::Unsupported(_) | GitError::Io { .. } => {
                ReceiveError::Work(failure)
            }
        }
    }
}

fn accepted_size(git: &Git, base: &CommitId, commit: &CommitId) -> Result<TreeSize, ReceiveError> {
    let what = |commit: &CommitId| format!("the size of the files of {commit} cannot be read");
    let measure =
        |limit: TreeSize| TreeSize::measure(git, commit, limit).map_err(not_listed(what(commit)));
    if let Some(size) = measure(MAX_TREE)? {
        return Ok(size);
    }
    let of_base = TreeSize::measure(git, base, TreeSize::UNLIMITED);
    let of_base = of_base.map_err(work_error(what(base)))?.unwrap_or(MAX_TREE);
    let limit = MAX_TREE.max(of_base.doubled());
    let size = measure(limit)?;
    size.ok_or_else(|| ReceiveError::TooLarge { commit: commit.clone(), limit })
}
