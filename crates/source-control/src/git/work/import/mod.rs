//! Importing an agent's commits from an overlay layer into the repository.
//!
//! While an agent runs, everything that its git writes goes to a layer, and the repository does not
//! change. Nothing in the layer is trusted. Only the tip of the agent's own branch and the objects that
//! it needs are imported; configuration, hooks, other references and replacements are ignored.
//!
//! The repository does not change before everything is checked. Then a pack is added, and then the branch
//! moves by compare-and-swap. An interrupted import can be repeated.

mod copy_objects;
mod layer;
mod layer_branch;
mod object_transfer;

use std::path::Path;

use bailiwick_lifecycle::ports::WorkError;

use self::layer_branch::LayerBranch;
use self::object_transfer::BranchImport;
use super::landing_journal::Landings;
use super::scratch_directory::ScratchDirectory;
use super::worktree_paths::WorktreePaths;
use super::{GitWork, land, recover, work_error};
use crate::git::command::Input;
use crate::git::identity::{BAILIWICK, with_identity};
use crate::git::refs::resolve_ref;

/// What was imported into the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// Nothing: the branch did not move.
    Nothing,
    /// Nothing: the agent deleted its branch; the repository keeps it.
    Deleted,
    /// The branch has moved.
    Commits {
        /// Its new commit.
        tip: String,
        /// How many commits are new.
        count: u64,
    },
}

/// How much is imported at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportLimits {
    /// Bytes of stored objects; also the memory for one object.
    pub bytes: u64,
    /// Number of objects.
    pub objects: u64,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024 * 1024, objects: 500_000 }
    }
}

impl GitWork {
    /// Imports the commits on the agent's own branch from a layer. Its directory `upper` covered the git
    /// directory that all worktrees share. The agent must have ended.
    pub fn import(&self, layer: &Path) -> Result<Imported, WorkError> {
        self.import_with_limits(layer, ImportLimits::default())
    }

    /// The same with other limits.
    pub fn import_with_limits(
        &self,
        layer: &Path,
        limits: ImportLimits,
    ) -> Result<Imported, WorkError> {
        let branch = format!("refs/heads/{}", self.agent.branch());
        let what = format!("commits on {branch} cannot be imported from {}", layer.display());
        let refuse = |why: &str| WorkError {
            what: what.clone(),
            why: why.to_owned(),
            caused_by_agent: false,
        };
        if self.paths.common_dir.join("reftable").exists() {
            return Err(refuse(
                "the repository stores its references in a reftable, which is not supported",
            ));
        }
        let upper = layer.join("upper");
        if layer::look(&upper).map_err(work_error(what.as_str()))? != layer::Entry::Directory {
            return Err(refuse("it is not a layer: it has no directory `upper`"));
        }
        let old = resolve_ref(&self.paths.git(), &branch).map_err(work_error(what.as_str()))?;
        let old = old.ok_or_else(|| refuse("the repository has no such branch"))?;
        let found = layer_branch::observe(&upper, &self.paths.common_dir, &branch, old.len());
        let tip = match found.map_err(work_error(what.as_str()))? {
            LayerBranch::Unchanged => return Ok(Imported::Nothing),
            LayerBranch::Deleted => return Ok(Imported::Deleted),
            LayerBranch::At(tip) if tip == old => return Ok(Imported::Nothing),
            LayerBranch::At(tip) => tip,
        };
        let directory = ScratchDirectory::create(&self.state).map_err(work_error(what.as_str()))?;
        let import = BranchImport {
            paths: &self.paths,
            state: &self.state,
            directory: &directory,
            limits,
            old: &old,
            tip: &tip,
            what: &what,
        };
        let pack = import.pack(&import.raw(&upper)?)?;
        let count = import.check(pack.as_deref())?;
        apply(&import, pack.as_deref(), &branch)?;
        Ok(Imported::Commits { tip, count })
    }
}

/// Changes the repository: first the objects, then the branch.
fn apply(import: &BranchImport<'_>, pack: Option<&Path>, branch: &str) -> Result<(), WorkError> {
    // The lock is free only if no git of a killed process is alive.
    let landings = Landings::lock(import.state).map_err(work_error(import.what))?;
    let now = resolve_ref(&import.paths.git(), branch).map_err(work_error(import.what))?;
    if now.as_deref() == Some(import.tip) {
        return Ok(());
    }
    if let Some(pack) = pack {
        import.add_pack(pack)?;
    }
    let WorktreePaths { common_dir, .. } = import.paths;
    recover::clear_branch_lock(common_dir, branch, &[import.tip, import.old])
        .map_err(work_error(import.what))?;
    let git = land::branch_git(import.paths, import.directory).map_err(work_error(import.what))?;
    let git = with_identity(git, BAILIWICK, None);
    let arguments =
        ["update-ref", "--no-deref", "-m", "bailiwick: import", branch, import.tip, import.old];
    let moved = git.run_with_input(arguments, Input::File(landings.lock_file()));
    moved.map(drop).map_err(work_error(import.what))
}
