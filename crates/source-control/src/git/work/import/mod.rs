//! An agent's commits, brought from the layer that covered the repository into the repository.
//!
//! While an agent works, all that its git writes goes to a layer, and the repository stays as it is.
//! Everything in the layer is the agent's word. Taken from it are the tip of the agent's own branch
//! and the objects that this needs; its configuration, hooks, other references, replacements and
//! whatever else git reads are not looked at.
//!
//! Nothing of a repository changes before everything was checked. Then a pack appears in it, and
//! then the branch moves, by compare-and-swap. Cut off at any moment, it can be done again.

mod branch;
mod layer;
mod objects;
mod stores;

use std::path::Path;

use bailiwick_control::ports::WorkError;

use self::branch::Seen;
use self::stores::Way;
use super::journal::Landings;
use super::places::Places;
use super::plain::{self, OURSELVES};
use super::private::PrivateDirectory;
use super::{GitWork, land, recover, trouble};
use crate::git::command::Input;
use crate::git::refs::resolve_ref;

/// What was brought into the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// Nothing: the branch is where the repository has it.
    Nothing,
    /// Nothing: the agent deleted its branch. The repository keeps it.
    Deleted,
    /// The branch has moved.
    Commits {
        /// Where it is now.
        tip: String,
        /// How many commits it has more than before.
        count: u64,
    },
}

/// How much is taken from a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportLimits {
    /// Bytes of objects, as they are stored; also what one object may need of memory.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024 * 1024, objects: 500_000 }
    }
}

impl GitWork {
    /// Brings the commits on the agent's own branch from a layer into the repository; `upper` of
    /// the layer covered what the repository's worktrees share. The agent must have ended.
    pub fn import(&self, layer: &Path) -> Result<Imported, WorkError> {
        self.import_within(layer, ImportLimits::default())
    }

    /// The same with limits of the caller's.
    pub fn import_within(&self, layer: &Path, limits: ImportLimits) -> Result<Imported, WorkError> {
        let branch = format!("refs/heads/{}", self.agent.branch());
        let what = format!("commits on {branch} cannot be taken from {}", layer.display());
        let refuse =
            |why: &str| WorkError { what: what.clone(), why: why.to_owned(), of_tree: false };
        if self.places.common.join("reftable").exists() {
            return Err(refuse("the repository keeps its references in a reftable"));
        }
        let upper = layer.join("upper");
        if layer::look(&upper).map_err(trouble(what.as_str()))? != layer::Entry::Directory {
            return Err(refuse("that is no layer: it has no directory `upper`"));
        }
        let old = resolve_ref(&self.places.git(), &branch).map_err(trouble(what.as_str()))?;
        let old = old.ok_or_else(|| refuse("the repository has no such branch"))?;
        let seen = branch::observe(&upper, &self.places.common, &branch, old.len());
        let tip = match seen.map_err(trouble(what.as_str()))? {
            Seen::Unchanged => return Ok(Imported::Nothing),
            Seen::Deleted => return Ok(Imported::Deleted),
            Seen::At(tip) if tip == old => return Ok(Imported::Nothing),
            Seen::At(tip) => tip,
        };
        let directory = PrivateDirectory::make(&self.state).map_err(trouble(what.as_str()))?;
        let way = Way {
            places: &self.places,
            state: &self.state,
            directory: &directory,
            limits,
            old: &old,
            tip: &tip,
            what: &what,
        };
        let pack = way.pack(&way.raw(&upper)?)?;
        let count = way.check(pack.as_deref())?;
        apply(&way, pack.as_deref(), &branch)?;
        Ok(Imported::Commits { tip, count })
    }
}

/// Changes the repository: the objects first, then the one branch.
fn apply(way: &Way<'_>, pack: Option<&Path>, branch: &str) -> Result<(), WorkError> {
    // Whoever holds this knows that no git of ours that was cut off is still at work.
    let landings = Landings::lock(way.state).map_err(trouble(way.what))?;
    let now = resolve_ref(&way.places.git(), branch).map_err(trouble(way.what))?;
    if now.as_deref() == Some(way.tip) {
        return Ok(());
    }
    if let Some(pack) = pack {
        way.bring(pack)?;
    }
    let Places { common, .. } = way.places;
    recover::clear_branch_lock(common, branch, &[way.tip, way.old]).map_err(trouble(way.what))?;
    let git = land::references(way.places, way.directory).map_err(trouble(way.what))?;
    let git = plain::signed(git, OURSELVES, None);
    let arguments =
        ["update-ref", "--no-deref", "-m", "bailiwick: import", branch, way.tip, way.old];
    let moved = git.run_with_input(arguments, Input::File(landings.held()));
    moved.map(drop).map_err(trouble(way.what))
}
