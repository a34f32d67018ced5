//! Work that was done on another machine: it leaves as a bundle there, and is put into the agent's worktree here.

use bailiwick_lifecycle::ports::{Snapshot, WorkError};
use bailiwick_model::CommitId;

use super::{GitWork, disabled_filters, work_error};
use crate::git::bundle::{BundleError, create_bundle};

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

    /// Puts work into the worktree as its agent left it: its branch is at `head`, its files are those of `commit`. No
    /// program that the repository names is run.
    pub fn receive(&self, head: &CommitId, commit: &CommitId) -> Result<(), WorkError> {
        let what = || format!("the work cannot be put into {}", self.paths.worktree.display());
        let without = disabled_filters::without_filters(&self.paths).map_err(work_error(what()))?;
        let git = self.paths.worktree_git().with_settings(without);
        let git = git.with_settings([("submodule.recurse", "false")]);
        let steps: [&[&str]; 3] = [
            &["reset", "--hard", "--quiet", head.as_str()],
            &["read-tree", "--reset", "-u", commit.as_str()],
            &["reset", "--quiet", head.as_str()],
        ];
        steps.into_iter().try_for_each(|step| {
            git.run(step.iter().copied()).map(drop).map_err(work_error(what()))
        })
    }
}
