//! The agent's work as source control has it: the snapshot, the trial merge, the landing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_model::{CommitId, TreeId};
use bailiwick_verify::Change;
use bailiwick_verify::facts::{RepositoryFacts, Texts};
use thiserror::Error;

/// All work of an agent: commits, and staged, unstaged and untracked files that are not ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit that is checked out in its worktree.
    pub head: CommitId,
    /// A commit on `head` that has all of it; `head` itself where everything is committed.
    pub commit: CommitId,
    /// The tree of that commit.
    pub tree: TreeId,
    /// The commit where the work left the base branch.
    pub merge_base: CommitId,
    /// The tree of that commit.
    pub merge_base_tree: TreeId,
}

/// The branch on which the work is to land, at its current commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Its full name, for example `refs/heads/main`.
    pub branch: String,
    /// Its commit.
    pub tip: CommitId,
    /// The tree of that commit.
    pub tree: TreeId,
    /// How it was determined, in a few words.
    pub found: String,
}

/// The result of a three-way merge of the work onto the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// A tree.
    Clean {
        /// Its name.
        tree: TreeId,
    },
    /// None.
    Conflicts(Vec<Conflict>),
}

/// A path that does not merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: String,
    /// The kind of conflict, in git's words.
    pub why: String,
}

/// How the verified tree becomes a commit on the base branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// A merge commit: the base first, then the agent's commits. One commit on the base if the agent made none.
    #[default]
    Merge,
    /// One commit on the base.
    Squash,
    /// Each commit of the work again, on the base.
    Rebase,
}

/// A landing to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// The agent, which names the record by which a landing that was cut off is completed.
    pub agent: String,
    /// The branch to advance, by its full name.
    pub branch: String,
    /// Where that branch must be; `None` if it must not be there yet.
    pub expected: Option<CommitId>,
    /// The commit of the base branch that the tree was verified on.
    pub onto: CommitId,
    /// The work.
    pub work: Snapshot,
    /// The verified tree.
    pub tree: TreeId,
    /// How.
    pub method: Method,
    /// The message, with its trailers.
    pub message: String,
}

/// A performed landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// The commit that the branch is at now.
    pub commit: CommitId,
    /// The checkouts that were brought up to it.
    pub checkouts: Vec<PathBuf>,
}

/// Why work did not land. The branch is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LandError {
    /// The branch is elsewhere now.
    #[error("{branch} moved to {now} meanwhile")]
    Moved {
        /// The branch.
        branch: String,
        /// The current commit.
        now: String,
    },
    /// The branch is checked out, with changes that are not committed.
    #[error("{branch} is checked out in {}, which has uncommitted changes: {}", checkout.display(), changes.join(", "))]
    Unclean {
        /// The branch.
        branch: String,
        /// Where.
        checkout: PathBuf,
        /// Some of the changed files.
        changes: Vec<String>,
    },
    /// The branch is in use: by a rebase, a bisection, a merge, or another git at this moment.
    #[error("{branch} is in use in {}: {why}", checkout.display())]
    Held {
        /// The branch.
        branch: String,
        /// Where.
        checkout: PathBuf,
        /// The obstacle, and what to do.
        why: String,
    },
    /// The base has all of it already.
    #[error("nothing to land: {branch} has the tree {tree} already")]
    Nothing {
        /// The branch.
        branch: String,
        /// The tree.
        tree: TreeId,
    },
    /// The method of landing produces another tree than the verified one.
    #[error("{how} gives another tree than the one that was verified: {why}")]
    OtherTree {
        /// The way of landing.
        how: &'static str,
        /// The difference.
        why: String,
    },
    /// Git did not do its part.
    #[error(transparent)]
    Work(#[from] WorkError),
}

/// A commit of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub name: CommitId,
    /// Its parents; none of a root.
    pub parents: Vec<CommitId>,
}

/// Why a source control operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct WorkError {
    /// The operation.
    pub what: String,
    /// The cause.
    pub why: String,
    /// Whether it is caused by the agent's files, so the agent can repair it.
    pub caused_by_agent: bool,
}

/// One agent's work in one repository.
pub trait Work {
    /// The branch on which the work is to land, at its current commit.
    fn base(&self) -> Result<Base, WorkError>;

    /// The current work; neither its index nor its files are changed.
    fn snapshot(&self, base: &Base) -> Result<Snapshot, WorkError>;

    /// The differences between two trees.
    fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, WorkError>;

    /// Returns an error if a changed submodule points to a commit that exists only in the worktree.
    fn require_submodule_commits(&self, changes: &[Change]) -> Result<(), WorkError>;

    /// Every path that a commit of the work changed, even if a later commit reverted it.
    fn touched(&self, work: &Snapshot) -> Result<Vec<String>, WorkError>;

    /// The commits of the work, each with its parents.
    fn commits(&self, work: &Snapshot) -> Result<Vec<Commit>, WorkError>;

    /// The texts of changed files, by their path now.
    fn texts(
        &self,
        changes: &[Change],
        paths: &[String],
    ) -> Result<BTreeMap<String, Texts>, WorkError>;

    /// The three-way merge of the work onto the base, without a checkout.
    fn merge(&self, base: &Base, work: &Snapshot) -> Result<Merge, WorkError>;

    /// A tree with these changes applied.
    fn with_changes(&self, tree: &TreeId, changes: &[&Change]) -> Result<TreeId, WorkError>;

    /// Writes a tree into an empty directory, as a separate repository whose HEAD is a commit with these parents.
    fn materialise(
        &self,
        tree: &TreeId,
        parents: &[&CommitId],
        directory: &Path,
    ) -> Result<(), WorkError>;

    /// The state of the repository, compared with the state at the spawn.
    fn repository(&self, base: &Base, work: &Snapshot) -> Result<RepositoryFacts, WorkError>;

    /// Advances a branch to exactly the verified tree, by compare-and-swap.
    fn land(&self, landing: &Landing) -> Result<Landed, LandError>;
}
