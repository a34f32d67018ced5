//! Applying changes to a tree.

use std::path::Path;

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_model::TreeId;
use bailiwick_verify::Change;
use bailiwick_verify::change::Mode;

use super::scratch_directory::ScratchDirectory;
use super::worktree_paths::WorktreePaths;
use super::{object_view, work_error};
use crate::git::command::Input;

/// Creates the tree that `tree` with these changes is.
pub(super) fn compose(
    paths: &WorktreePaths,
    state: &Path,
    tree: &TreeId,
    changes: &[&Change],
) -> Result<TreeId, WorkError> {
    let what = || format!("{tree} cannot be changed");
    let directory = ScratchDirectory::create(state).map_err(work_error(what()))?;
    let git = object_view::git(state, paths, tree)?
        .with_env("GIT_INDEX_FILE", directory.path().join("index"));
    git.run(["read-tree", tree.as_str()]).map_err(work_error(what()))?;
    let nothing = "0".repeat(tree.len());
    let mut list = String::new();
    for change in changes {
        for path in change.paths() {
            let entry = change.after.as_ref().filter(|_| path == change.path);
            let (mode, object) = match entry {
                None => ("0", nothing.as_str()),
                Some(entry) => (octal(entry.mode), entry.object.as_str()),
            };
            list += &format!("{mode} {object}\t{path}\0");
        }
    }
    let arguments = ["update-index", "-z", "--index-info"];
    git.run_with_input(arguments, Input::Bytes(list.as_bytes())).map_err(work_error(what()))?;
    git.line(["write-tree"]).map(TreeId::new).map_err(work_error(what()))
}

fn octal(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "100644",
        Mode::Executable => "100755",
        Mode::Link => "120000",
        Mode::Submodule => "160000",
    }
}
