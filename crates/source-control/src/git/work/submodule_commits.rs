//! The commits that changed submodules point to: they must be in a repository of the person, because the
//! one that an agent has for a submodule goes with its worktree.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_verify::{Change, Mode};

use super::work_error;
use super::worktree_paths::WorktreePaths;
use crate::git::command::Git;

/// How deep submodules of submodules are looked for.
const MAX_DEPTH: usize = 8;

/// Returns an error if the commit of a changed submodule is in no repository of the person.
pub(super) fn require_known(paths: &WorktreePaths, changes: &[Change]) -> Result<(), WorkError> {
    let pointed = changes.iter().filter_map(|change| {
        let after = change.after.as_ref().filter(|entry| entry.mode == Mode::Submodule)?;
        (change.before.as_ref() != Some(after)).then_some((change.path.as_str(), &after.object))
    });
    for (path, commit) in pointed {
        let mut repositories = Vec::new();
        find(&paths.common_dir.join("modules"), MAX_DEPTH, &mut repositories);
        // A submodule of an older git has its repository in the checkout.
        let checkout = paths.common_dir.parent().map(|above| above.join(path).join(".git"));
        let is_agents = |git: &PathBuf| git.starts_with(&paths.worktree);
        repositories.extend(checkout.filter(|git| git.is_dir() && !is_agents(git)));
        let name = format!("{commit}^{{commit}}");
        let mut is_known = false;
        for repository in &repositories {
            let git = Git::at(repository).with_env("GIT_DIR", repository);
            is_known |= git
                .succeeds(["cat-file", "-e", &name])
                .map_err(work_error(format!("the submodule {path} cannot be examined")))?;
        }
        if !is_known {
            return Err(WorkError {
                what: format!("the submodule {path} points to {commit:.12}"),
                why:
                    "that commit is in no repository of yours, so nobody else could check it out; \
                      undo it, or push the commit and fetch it in the submodule of your checkout"
                        .to_owned(),
                caused_by_agent: true,
            });
        }
    }
    Ok(())
}

/// The git directories at or below a directory: submodules can have others, and slashes in their names.
fn find(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.join("HEAD").is_file() && path.join("objects").is_dir() {
            find(&path.join("modules"), depth, found);
            found.push(path);
        } else {
            find(&path, depth, found);
        }
    }
}
