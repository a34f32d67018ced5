//! One agent's work in a git repository: its snapshot, its merge, its landing.
//!
//! ```text
//! worktree_paths     the directories of a repository and a worktree
//! object_view        git that sees only the objects, without the repository's configuration
//! regular_file       reading files that an agent may have replaced by pipes
//! scratch_directory  temporary directories; those of killed processes are swept
//!
//! base_branch        the branch to land on
//! snapshot           all work as one commit: pending_snapshot, worktree_files, index_file,
//!                    index_cache, index_normalization, filtered_files, submodule
//! identity_settings  who makes commits
//! merge, tree_diff, compose, materialise    trees, without a checkout
//! land               landing_commits, checkouts, file_version, index_lock, landing_journal
//! recover, rollback  after an interrupted landing; undoing a landing
//! repository_state   what an agent changed in the repository: spawn_record, moved_refs
//! import             commits that an agent made in an overlay of the repository
//! received_work      work that an agent did on another machine: tree_size
//! ```

mod base_branch;
mod checkouts;
mod compose;
mod disabled_filters;
mod escaped_path;
mod file_version;
mod filtered_files;
mod identity_settings;
mod import;
mod index_cache;
mod index_file;
mod index_lock;
mod index_normalization;
mod land;
mod landing_commits;
mod landing_journal;
mod materialise;
mod merge;
mod merge_compat;
mod moved_refs;
mod object_view;
mod pending_snapshot;
mod received_work;
mod recover;
mod regular_file;
mod repository_state;
mod rollback;
mod scratch_directory;
mod snapshot;
mod spawn_record;
mod submodule;
mod submodule_commits;
mod tree_diff;
mod tree_size;
mod untracked;
mod worktree_files;
mod worktree_paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_lifecycle::ports::{
    Base, Commit, LandError, Landed, Landing, Merge, Method, Snapshot, Work, WorkError,
};
use bailiwick_model::{AgentId, CommitId, TreeId};
use bailiwick_verify::Change;
use bailiwick_verify::facts::{RepositoryFacts, Texts};

pub use base_branch::BaseBranch;
pub use import::{ImportLimits, Imported};
pub use moved_refs::REJECTED_MARKER;
pub use received_work::ReceiveError;
pub use recover::{Recovery, recover};
pub use rollback::RollbackPlan;
pub use spawn_record::{HeadLog, SpawnRecord, record_spawn};
pub use tree_size::TreeSize;
pub use untracked::{ignore_rules, new_files, untracked};

/// Removes unmodified files with a git filter from the changed paths of a checkout: without their filter
/// they only look changed.
pub(super) fn without_filtered(
    root: &Path,
    changed: std::collections::BTreeSet<Vec<u8>>,
) -> Result<std::collections::BTreeSet<Vec<u8>>, super::GitError> {
    match worktree_paths::WorktreePaths::observe(root, root) {
        Ok(checkout) => checkouts::without_filtered(&checkout, changed),
        Err(_) => Ok(changed),
    }
}

/// The work of one agent.
#[derive(Debug, Clone)]
pub struct GitWork {
    paths: worktree_paths::WorktreePaths,
    state: PathBuf,
    agent: AgentId,
    base: Option<String>,
    /// The commit that the work is compared with instead of a branch.
    base_commit: Option<CommitId>,
    /// The commit that the work left, where it is replayed on another one.
    left: Option<CommitId>,
    record: Option<SpawnRecord>,
    /// The next snapshot, if it was started ahead of time.
    pending: Arc<Mutex<Option<pending_snapshot::PendingSnapshot>>>,
}

impl GitWork {
    /// The work of `agent` in `worktree`, which belongs to `repository` (a checkout, a worktree or a bare
    /// repository). `state` is the directory of Bailiwick's own files. `base` is the branch to land on,
    /// if a person named it.
    pub fn open(
        repository: &Path,
        worktree: &Path,
        state: &Path,
        agent: &AgentId,
        base: Option<String>,
    ) -> Result<Self, WorkError> {
        Ok(Self {
            paths: worktree_paths::WorktreePaths::observe(repository, worktree)?,
            state: std::path::absolute(state)
                .map_err(work_error("the state directory cannot be found"))?,
            agent: agent.clone(),
            base,
            base_commit: None,
            left: None,
            record: spawn_record::read(state, agent)?,
            pending: Arc::default(),
        })
    }

    /// Sets the branch to land on, if a person named it.
    #[must_use]
    pub fn with_base(mut self, base: Option<String>) -> Self {
        self.base = base;
        self
    }

    /// Compares the work with this commit: no branch of the repository is read.
    #[must_use]
    pub fn on_commit(mut self, commit: CommitId) -> Self {
        self.base_commit = Some(commit);
        self
    }

    /// Replays the work, which left the commit `left`, on another commit. Only the changes since `left` count, also
    /// where the other commit does not contain it.
    #[must_use]
    pub fn replayed(mut self, left: CommitId, onto: CommitId) -> Self {
        self.left = Some(left);
        self.base_commit = Some(onto);
        self
    }

    /// Creates the commits of the work on the commit `onto`, and returns the last one. It has the tree `tree`.
    pub fn replay(
        &self,
        onto: &CommitId,
        work: &Snapshot,
        tree: &TreeId,
    ) -> Result<CommitId, LandError> {
        let git = self.object_git(onto)?;
        let what = "the message of the work cannot be read";
        let message = git.run(["log", "-1", "--format=%B", "--no-show-signature", &work.commit]);
        let message = message.map_err(work_error(what))?;
        let landing = Landing {
            agent: self.agent.to_string(),
            branch: onto.to_string(),
            expected: None,
            onto: onto.clone(),
            work: work.clone(),
            tree: tree.clone(),
            method: Method::Rebase,
            message: String::from_utf8_lossy(&message).trim().to_owned(),
        };
        let committer = landing_commits::Committer::observe(&self.paths);
        match landing_commits::create(&git, &self.state, &committer, &landing) {
            // Merges cannot be replayed, and a commit that conflicts alone may not do so with those after it.
            Err(LandError::OtherTree { .. }) => {
                let squashed = Landing { method: Method::Squash, ..landing };
                landing_commits::create(&git, &self.state, &committer, &squashed)
            }
            created => created,
        }
    }

    /// A file of git's configuration that says who makes an agent's commits: the person, as far as their own
    /// configuration does.
    pub fn identity_file(&self) -> String {
        identity_settings::IdentitySettings::observe(&self.paths).file()
    }

    /// Starts the next snapshot in the background: it records the work as it is now. `object` is the
    /// name of any object of the repository.
    pub fn start_snapshot(&self, object: &str) -> Result<(), WorkError> {
        // Only a full name tells the length of object names.
        if !matches!(object.len(), 40 | 64) {
            return Ok(());
        }
        let snapshot = pending_snapshot::PendingSnapshot::start(
            &self.paths,
            &self.state,
            self.agent.as_str(),
            object.len() / 2,
        )?;
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        Ok(())
    }

    /// The git directory that all worktrees share (`GIT_COMMON_DIR`).
    pub fn common_dir(&self) -> &Path {
        &self.paths.common_dir
    }

    /// The git directory of the agent's worktree (`GIT_DIR`).
    pub fn git_dir(&self) -> &Path {
        &self.paths.git_dir
    }

    /// The state of the repository when the agent was spawned.
    pub fn spawn_record(&self) -> Option<&SpawnRecord> {
        self.record.as_ref()
    }

    /// Returns an error if the work cannot land now, whatever its checks say: nothing would change, a
    /// checkout of the branch has uncommitted changes, or the branch is in use. `branch` is the full name of
    /// a branch to create instead of advancing the base. Work that cannot be read is left to the checks.
    pub fn check_landing(&self, branch: Option<&str>) -> Result<(), LandError> {
        let Ok(base) = self.base() else { return Ok(()) };
        let Ok(work) = self.snapshot(&base) else { return Ok(()) };
        let Ok(Merge::Clean { tree }) = self.merge(&base, &work) else { return Ok(()) };
        let landing = Landing {
            agent: self.agent.to_string(),
            branch: branch.unwrap_or(&base.branch).to_owned(),
            expected: branch.is_none().then(|| base.tip.clone()),
            onto: base.tip,
            work,
            tree,
            method: Method::Merge,
            message: String::new(),
        };
        match self.check_landing_of(&landing) {
            // The checks will run on the new tip.
            Err(LandError::Moved { .. }) => Ok(()),
            checked => checked,
        }
    }

    /// Returns an error if this landing would be refused now.
    pub fn check_landing_of(&self, landing: &Landing) -> Result<(), LandError> {
        land::check(&self.paths, &self.state, landing)
    }

    fn object_git(&self, object: &str) -> Result<super::Git, WorkError> {
        object_view::git(&self.state, &self.paths, object)
    }
}

impl Work for GitWork {
    fn base(&self) -> Result<Base, WorkError> {
        if let Some(commit) = &self.base_commit {
            return base_branch::of_commit(&self.paths, commit);
        }
        let recorded = self.record.as_ref().and_then(|record| record.base.as_ref());
        let wanted = base_branch::BaseHints {
            named: self.base.as_deref(),
            recorded: recorded.map(|base| base.branch.as_str()),
            own: self.agent.branch(),
        };
        base_branch::observe(&self.paths, &wanted)
    }

    fn snapshot(&self, base: &Base) -> Result<Snapshot, WorkError> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let left = self.left.as_deref().map(|left| base_branch::of_commit(&self.paths, left));
        let left = left.transpose()?;
        let base = left.as_ref().unwrap_or(base);
        snapshot::take(&self.paths, &self.state, self.agent.as_str(), base, pending)
    }

    fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, WorkError> {
        let what = || format!("{before} and {after} cannot be compared");
        tree_diff::between(&self.object_git(after)?, before, after).map_err(work_error(what()))
    }

    fn require_submodule_commits(&self, changes: &[Change]) -> Result<(), WorkError> {
        submodule_commits::require_known(&self.paths, changes)
    }

    fn touched(&self, work: &Snapshot) -> Result<Vec<String>, WorkError> {
        if work.head == work.merge_base {
            return Ok(Vec::new());
        }
        let what = || "the commits of the work cannot be read";
        tree_diff::touched(&self.object_git(&work.head)?, &work.merge_base, &work.head)
            .map_err(work_error(what()))
    }

    fn commits(&self, work: &Snapshot) -> Result<Vec<Commit>, WorkError> {
        if work.head == work.merge_base {
            return Ok(Vec::new());
        }
        tree_diff::commits(&self.object_git(&work.head)?, &work.merge_base, &work.head)
            .map_err(work_error("the commits of the work cannot be read"))
    }

    fn texts(
        &self,
        changes: &[Change],
        paths: &[String],
    ) -> Result<BTreeMap<String, Texts>, WorkError> {
        let sides = changes.iter().flat_map(|change| [&change.before, &change.after]);
        let Some(any) = sides.flatten().next() else { return Ok(BTreeMap::new()) };
        let texts = tree_diff::texts(&self.object_git(&any.object)?, changes, paths);
        texts.map_err(work_error("changed files cannot be read"))
    }

    fn merge(&self, base: &Base, work: &Snapshot) -> Result<Merge, WorkError> {
        if work.merge_base == base.tip {
            return Ok(Merge::Clean { tree: work.tree.clone() });
        }
        if work.merge_base == work.commit {
            return Ok(Merge::Clean { tree: base.tree.clone() });
        }
        let what = || format!("the work cannot be merged onto {}", base.branch);
        let sides = merge::Sides {
            base: self.left.as_ref().map(|_| work.merge_base.as_str()),
            ours: &base.tip,
            theirs: &work.commit,
            attributes: &base.tree,
        };
        merge::merge(&self.object_git(&base.tip)?, &self.state, &sides).map_err(work_error(what()))
    }

    fn with_changes(&self, tree: &TreeId, changes: &[&Change]) -> Result<TreeId, WorkError> {
        compose::compose(&self.paths, &self.state, tree, changes)
    }

    fn materialise(
        &self,
        tree: &TreeId,
        parents: &[&CommitId],
        directory: &Path,
    ) -> Result<(), WorkError> {
        materialise::materialise(&self.paths, &self.state, tree, parents, directory)
    }

    fn repository(&self, base: &Base, work: &Snapshot) -> Result<RepositoryFacts, WorkError> {
        let what = format!("the state of {} cannot be read", self.paths.common_dir.display());
        let context = self.record.as_ref().map(|record| moved_refs::AgentContext {
            paths: &self.paths,
            state: &self.state,
            agent: self.agent.as_str(),
            branch: self.agent.branch(),
            record,
        });
        repository_state::observe(&self.paths, context.as_ref(), base, work)
            .map_err(work_error(what))
    }

    fn land(&self, landing: &Landing) -> Result<Landed, LandError> {
        land::land(&self.paths, &self.state, landing)
    }
}

/// Git that sees only the objects of a repository; `object` is the name of any of them.
pub(super) fn objects_of(
    repository: &Path,
    state: &Path,
    object: &str,
) -> Result<super::Git, WorkError> {
    let common_dir = worktree_paths::find_common_dir(repository)?;
    let paths = worktree_paths::WorktreePaths {
        git_dir: common_dir.clone(),
        worktree: repository.to_owned(),
        common_dir,
    };
    object_view::git(state, &paths, object)
}

/// Turns an error into a `WorkError`; `what` says what failed.
fn work_error<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> WorkError {
    let what = what.into();
    move |why| WorkError { what, why: why.to_string(), caused_by_agent: false }
}
