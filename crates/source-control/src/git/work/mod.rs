//! One agent's work in a git repository: its snapshot, its merge, its landing.
//!
//! ```text
//! places      where things are; the agent's .git counts only if the repository agrees
//! plain       a view on the objects alone, with no configuration of anybody's
//! plain_file  files that are read without waiting for anybody
//! private     directories for one piece of work, swept if we are killed
//! base        the branch to land on      snapshot     all work as one commit: ahead, files,
//!                                        refreshed, filtered
//! changes     tree against tree          merge        without a checkout; merge_compat: by old gits
//! materialise a tree as files            spawn_record, repository_state, movements
//! land        commits, checkouts, contents, index_lock, journal; recover; rollback
//! import      commits that an agent made in a layer over the repository
//! ```

mod ahead;
mod base;
mod changes;
mod checkouts;
mod commits;
mod composed;
mod contents;
mod files;
mod filtered;
mod import;
mod index;
mod index_lock;
mod journal;
mod land;
mod materialise;
mod merge;
mod merge_compat;
mod movements;
mod paths;
mod peculiar;
mod places;
mod plain;
mod plain_file;
mod private;
mod programs;
mod recover;
mod refreshed;
mod repository_state;
mod rollback;
mod snapshot;
mod spawn_record;
mod submodule;
mod untracked;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_lifecycle::ports::{
    Base, Commit, LandError, Landed, Landing, Merge, Method, Snapshot, Work, WorkError,
};
use bailiwick_model::AgentId;
use bailiwick_verify::Change;
use bailiwick_verify::facts::{RepositoryFacts, Texts};

pub use base::BaseBranch;
pub use import::{ImportLimits, Imported};
pub use movements::REJECTED;
pub use recover::{Recovered, recover};
pub use rollback::RollbackPlan;
pub use spawn_record::{HeadLog, SpawnRecord, record_spawn};
pub use untracked::{ignore_rules, new_files, untracked};

/// Those of these changed paths of a checkout that are changed in truth: files that are stored through a filter and
/// that nobody touched are not.
pub(super) fn without_filtered(
    root: &Path,
    changed: std::collections::BTreeSet<Vec<u8>>,
) -> Result<std::collections::BTreeSet<Vec<u8>>, super::GitError> {
    match places::Places::observe(root, root) {
        Ok(checkout) => checkouts::without_filtered(&checkout, changed),
        Err(_) => Ok(changed),
    }
}

/// The work of one agent.
#[derive(Debug, Clone)]
pub struct GitWork {
    places: places::Places,
    state: PathBuf,
    agent: AgentId,
    base: Option<String>,
    record: Option<SpawnRecord>,
    /// The beginning of the next snapshot.
    ahead: Arc<Mutex<Option<ahead::Ahead>>>,
}

impl GitWork {
    /// The work of `agent` in `worktree`, which belongs to `repository` (a checkout, a worktree or
    /// a bare repository); what only we write is below `state`. `base` is the branch to land on, if
    /// a person has named it.
    pub fn open(
        repository: &Path,
        worktree: &Path,
        state: &Path,
        agent: &AgentId,
        base: Option<String>,
    ) -> Result<Self, WorkError> {
        Ok(Self {
            places: places::Places::observe(repository, worktree)?,
            state: std::path::absolute(state).map_err(trouble("the state cannot be found"))?,
            agent: agent.clone(),
            base,
            record: spawn_record::read(state, agent)?,
            ahead: Arc::default(),
        })
    }

    /// The same work, to land on `base` if a person has named it.
    #[must_use]
    pub fn onto(mut self, base: Option<String>) -> Self {
        self.base = base;
        self
    }

    /// Looks at the work now, beside whatever else is done: the next snapshot, and only that one,
    /// is of this moment. `object` is the name of any object of the repository.
    pub fn look_ahead(&self, object: &str) -> Result<(), WorkError> {
        // What is no whole name does not tell how long names are.
        if !matches!(object.len(), 40 | 64) {
            return Ok(());
        }
        let begun =
            ahead::Ahead::start(&self.places, &self.state, self.agent.as_str(), object.len() / 2)?;
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        Ok(())
    }

    /// The directory that git shares between worktrees.
    pub fn git_common(&self) -> &Path {
        &self.places.common
    }

    /// The directory that git has for the agent's worktree alone.
    pub fn git_private(&self) -> &Path {
        &self.places.private
    }

    /// What was recorded when the agent was spawned.
    pub fn spawn_record(&self) -> Option<&SpawnRecord> {
        self.record.as_ref()
    }

    /// An error if the work could not land now, whatever its checks say: nothing would change, the branch
    /// is checked out with changes that are not committed, or it is in use. `branch` is the full name of
    /// one to make instead of advancing the base. Work that cannot be read is left to its checks.
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
        match self.could_land(&landing) {
            // The checks are run on where it is then.
            Err(LandError::Moved { .. }) => Ok(()),
            checked => checked,
        }
    }

    /// Whether this could land as everything is now.
    pub fn could_land(&self, landing: &Landing) -> Result<(), LandError> {
        land::check(&self.places, &self.state, landing)
    }

    fn objects(&self, object: &str) -> Result<super::Git, WorkError> {
        plain::git(&self.state, &self.places, object)
    }
}

impl Work for GitWork {
    fn base(&self) -> Result<Base, WorkError> {
        let recorded = self.record.as_ref().and_then(|record| record.base.as_ref());
        let wanted = base::Wanted {
            given: self.base.as_deref(),
            recorded: recorded.map(|base| base.branch.as_str()),
            own: self.agent.branch(),
        };
        base::observe(&self.places, &wanted)
    }

    fn snapshot(&self, base: &Base) -> Result<Snapshot, WorkError> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        snapshot::take(&self.places, &self.state, self.agent.as_str(), base, ahead)
    }

    fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, WorkError> {
        let what = || format!("{before} and {after} cannot be compared");
        changes::between(&self.objects(after)?, before, after).map_err(trouble(what()))
    }

    fn touched(&self, work: &Snapshot) -> Result<Vec<String>, WorkError> {
        if work.head == work.merge_base {
            return Ok(Vec::new());
        }
        let what = || "the commits of the work cannot be read";
        changes::touched(&self.objects(&work.head)?, &work.merge_base, &work.head)
            .map_err(trouble(what()))
    }

    fn commits(&self, work: &Snapshot) -> Result<Vec<Commit>, WorkError> {
        if work.head == work.merge_base {
            return Ok(Vec::new());
        }
        changes::commits(&self.objects(&work.head)?, &work.merge_base, &work.head)
            .map_err(trouble("the commits of the work cannot be read"))
    }

    fn texts(
        &self,
        changes: &[Change],
        paths: &[String],
    ) -> Result<BTreeMap<String, Texts>, WorkError> {
        let sides = changes.iter().flat_map(|change| [&change.before, &change.after]);
        let Some(any) = sides.flatten().next() else { return Ok(BTreeMap::new()) };
        let texts = changes::texts(&self.objects(&any.object)?, changes, paths);
        texts.map_err(trouble("changed files cannot be read"))
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
            base: None,
            ours: &base.tip,
            theirs: &work.commit,
            attributes: &base.tree,
        };
        merge::merge(&self.objects(&base.tip)?, &self.state, &sides).map_err(trouble(what()))
    }

    fn with_changes(&self, tree: &str, changes: &[&Change]) -> Result<String, WorkError> {
        composed::compose(&self.places, &self.state, tree, changes)
    }

    fn materialise(&self, tree: &str, parents: &[&str], directory: &Path) -> Result<(), WorkError> {
        materialise::materialise(&self.places, &self.state, tree, parents, directory)
    }

    fn repository(&self, base: &Base, work: &Snapshot) -> Result<RepositoryFacts, WorkError> {
        let what = format!("the state of {} cannot be told", self.places.common.display());
        let subject = self.record.as_ref().map(|record| movements::Subject {
            places: &self.places,
            state: &self.state,
            agent: self.agent.as_str(),
            branch: self.agent.branch(),
            record,
        });
        repository_state::observe(&self.places, subject.as_ref(), base, work).map_err(trouble(what))
    }

    fn land(&self, landing: &Landing) -> Result<Landed, LandError> {
        land::land(&self.places, &self.state, landing)
    }
}

/// Git over the objects of a repository and nothing else of it; `object` is the name of any of them.
pub(super) fn objects_of(
    repository: &Path,
    state: &Path,
    object: &str,
) -> Result<super::Git, WorkError> {
    let common = places::common(repository)?;
    let places =
        places::Places { private: common.clone(), worktree: repository.to_owned(), common };
    plain::git(state, &places, object)
}

/// Makes an error of whatever went wrong with `what`.
fn trouble<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> WorkError {
    let what = what.into();
    move |why| WorkError { what, why: why.to_string(), of_tree: false }
}
