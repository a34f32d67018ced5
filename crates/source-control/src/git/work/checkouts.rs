//! Checkouts of a branch: which there are, whether they are clean, and updating them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{LandError, WorkError};

use super::escaped_path::escape_path;
use super::file_version::{self, FileVersion, Transition};
use super::index_lock::IndexLock;
use super::worktree_paths::WorktreePaths;
use super::{disabled_filters, filtered_files, work_error};
use crate::git::command::{Git, GitError, Input};
use crate::git::worktree_list::list_worktrees;

/// How many uncommitted changes an error lists.
const MAX_LISTED_CHANGES: usize = 10;

/// The git directories of all worktrees, the main one first.
pub(super) fn git_directories(common_dir: &Path) -> Vec<PathBuf> {
    let linked = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    let mut all = vec![common_dir.to_owned()];
    all.extend(linked.map(|entry| entry.path()));
    all
}

/// The checkouts that have `branch` checked out. Those whose directory is gone are left out.
pub(super) fn with_branch(
    common_dir: &Path,
    branch: &str,
) -> Result<Vec<WorktreePaths>, WorkError> {
    let what = || format!("the checkouts of {branch} cannot be found");
    let worktrees =
        list_worktrees(&Git::at(common_dir), Input::Nothing).map_err(work_error(what()))?;
    worktrees
        .iter()
        .filter(|worktree| worktree.branch.as_deref() == Some(branch.as_bytes()))
        .filter(|worktree| worktree.path.exists())
        .map(|worktree| WorktreePaths::observe(common_dir, &worktree.path))
        .collect()
}

/// Returns an error if an unfinished git operation, such as a rebase, depends on the branch.
pub(super) fn require_not_in_use(
    common_dir: &Path,
    branch: &str,
    checkouts: &[WorktreePaths],
) -> Result<(), LandError> {
    let in_use = |checkout: PathBuf, why: &str| {
        Err(LandError::Held { branch: branch.to_owned(), checkout, why: why.to_owned() })
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    for git_dir in git_directories(common_dir) {
        let says = |file: &str, name: &str| {
            let text = fs::read(git_dir.join(file)).unwrap_or_default();
            text.split(|byte| *byte == b'\n').any(|line| line == name.as_bytes())
        };
        for file in ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"]
        {
            if says(file, branch) {
                return in_use(
                    worktree_of(&git_dir),
                    "a rebase is in progress; finish or abort it",
                );
            }
        }
        if says("BISECT_START", short) {
            return in_use(
                worktree_of(&git_dir),
                "a bisection is in progress; end it: git bisect reset",
            );
        }
    }
    for checkout in checkouts {
        for (name, why) in [
            ("MERGE_HEAD", "a merge is in progress; finish or abort it"),
            ("CHERRY_PICK_HEAD", "a cherry-pick is in progress; finish or abort it"),
            ("REVERT_HEAD", "a revert is in progress; finish or abort it"),
            ("sequencer", "a sequence of picks is in progress; finish or abort it"),
            ("rebase-apply", "patches are being applied; finish or abort that"),
            ("rebase-merge", "a rebase is in progress; finish or abort it"),
        ] {
            if checkout.git_dir.join(name).exists() {
                return in_use(checkout.worktree.clone(), why);
            }
        }
    }
    Ok(())
}

/// The worktree of a git directory, as far as it can be found.
fn worktree_of(git_dir: &Path) -> PathBuf {
    let named = fs::read_to_string(git_dir.join("gitdir")).ok();
    let git = named.map_or_else(|| git_dir.to_owned(), |text| git_dir.join(text.trim_end()));
    if git.ends_with(".git") { git.parent().map_or(git.clone(), Path::to_owned) } else { git }
}

/// Locks the index of a checkout; an error if another process has locked it.
pub(super) fn lock(
    branch: &str,
    checkout: &WorktreePaths,
    state: &Path,
) -> Result<IndexLock, LandError> {
    let what = format!("the index of {} cannot be locked", checkout.worktree.display());
    let lock = IndexLock::acquire(&checkout.git_dir, state).map_err(work_error(what))?;
    lock.ok_or_else(|| LandError::Held {
        branch: branch.to_owned(),
        checkout: checkout.worktree.clone(),
        why: "another git is running there, or a killed one left its index.lock".to_owned(),
    })
}

/// Git in a checkout, without filters.
pub(super) fn git(checkout: &WorktreePaths) -> Result<Git, GitError> {
    Ok(checkout.worktree_git().with_settings(disabled_filters::without_filters(checkout)?))
}

/// Files that keep a checkout from being updated from one commit to another: uncommitted changes, and
/// untracked files where new ones would be written.
pub(super) fn obstacles(
    objects: &Git,
    checkout: &WorktreePaths,
    old: &str,
    new: &str,
) -> Result<Vec<String>, GitError> {
    let options = ["--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
    let status = ["status"].into_iter().chain(options).chain(["--ignore-submodules=dirty"]);
    let stdout = git(checkout)?.run(status)?;
    let fields = stdout.split(|byte| *byte == 0);
    let changed = fields.filter_map(|line| line.get(3..)).map(<[u8]>::to_vec);
    let changed = without_filtered(checkout, changed.collect())?;
    let mut found: Vec<String> = changed.iter().map(|path| escape_path(path)).collect();
    // The index may be at another commit than the branch although no file is changed.
    found
        .extend(untracked_obstacles(&PathChanges::between(objects, old, new)?, &checkout.worktree));
    found.truncate(MAX_LISTED_CHANGES);
    Ok(found)
}

/// Leaves out unmodified files with a git filter: git reads files that are as new as the index, and
/// without the filter they look changed.
pub(super) fn without_filtered(
    checkout: &WorktreePaths,
    changed: BTreeSet<Vec<u8>>,
) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let unread = |error| {
        GitError::io(format!("cannot read the index of {}", checkout.worktree.display()), error)
    };
    if changed.is_empty() {
        return Ok(changed);
    }
    let index = match fs::read(checkout.git_dir.join("index")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(changed),
        index => index.map_err(unread)?,
    };
    if !filtered_files::may_exist(checkout, &index) {
        return Ok(changed);
    }
    let unmodified =
        filtered_files::unmodified(&git(checkout)?, &checkout.worktree, &index, &changed)?;
    Ok(changed.into_iter().filter(|path| !unmodified.contains_key(path)).collect())
}

/// The paths that differ between two commits.
pub(super) struct PathChanges {
    pub(super) added: BTreeSet<Vec<u8>>,
    pub(super) deleted: BTreeSet<Vec<u8>>,
    pub(super) changed: BTreeSet<Vec<u8>>,
}

impl PathChanges {
    pub(super) fn between(objects: &Git, old: &str, new: &str) -> Result<Self, GitError> {
        let options = ["diff-tree", "-r", "-z", "--no-renames", "--name-status"];
        let options = options.into_iter().chain(["--ignore-submodules=none", old, new, "--"]);
        let stdout = objects.run(options)?;
        let mut path_changes =
            Self { added: BTreeSet::new(), deleted: BTreeSet::new(), changed: BTreeSet::new() };
        let mut fields = stdout.split(|byte| *byte == 0);
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            let set = match status {
                b"A" => &mut path_changes.added,
                b"D" => &mut path_changes.deleted,
                _ => &mut path_changes.changed,
            };
            set.insert(path.to_owned());
        }
        Ok(path_changes)
    }
}

/// Untracked files where new ones would be written, ignored or not: git would overwrite ignored ones.
fn untracked_obstacles(path_changes: &PathChanges, root: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    for path in &path_changes.added {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let Some(part) = path.get(..end) else { continue };
            let full_path = root.join(OsStr::from_bytes(part));
            let Ok(metadata) = fs::symlink_metadata(&full_path) else { break };
            if !metadata.is_dir() {
                if !path_changes.deleted.contains(part) {
                    found.insert(escape_path(part));
                }
                break;
            }
            if end == path.len() {
                found.extend(remaining_files(&full_path, part, path_changes));
            }
        }
    }
    found.into_iter().collect()
}

/// Files below a directory that the new commit does not delete.
fn remaining_files(directory: &Path, name: &[u8], path_changes: &PathChanges) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = [name, b"/", entry.file_name().as_bytes()].concat();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(remaining_files(&entry.path(), &name, path_changes));
        } else if !path_changes.deleted.contains(&name) {
            found.push(escape_path(&name));
        }
    }
    found
}

/// Updates a clean checkout from one commit to another. Git checks every file again before it writes.
pub(super) fn update_checkout(
    checkout: &WorktreePaths,
    index: &IndexLock,
    lock: &File,
    read_tree_arguments: &[&str],
) -> Result<(), WorkError> {
    let what = || format!("{} cannot be updated", checkout.worktree.display());
    let index_copy = index.copy_index().map_err(work_error(what()))?;
    let git = git(checkout).map_err(work_error(what()))?.with_env("GIT_INDEX_FILE", &index_copy);
    // A new time or owner is not a change. The next command stops at real changes.
    let _refreshed = git.run_with_input(["update-index", "-q", "--refresh"], Input::File(lock));
    let arguments = ["read-tree", "--no-recurse-submodules"].iter().chain(read_tree_arguments);
    git.run_with_input(arguments, Input::File(lock)).map_err(work_error(what()))?;
    index.install().map_err(work_error(what()))
}

/// Undoes what a failed git has done to a checkout; files that somebody else wrote stay.
pub(super) fn restore_checkout(
    objects: &Git,
    checkout: &WorktreePaths,
    index: &IndexLock,
    transition: Transition<'_>,
) -> Result<(), WorkError> {
    let what = || format!("{} cannot be restored", checkout.worktree.display());
    let path_changes = PathChanges::between(objects, transition.old, transition.new)
        .map_err(work_error(what()))?;
    let index_copy = index.copy_index().map_err(work_error(what()))?;
    let git = git(checkout).map_err(work_error(what()))?;
    for path in &path_changes.added {
        if file_version::observe(&git, checkout, path, transition) == FileVersion::New {
            let full_path = checkout.worktree.join(OsStr::from_bytes(path));
            fs::remove_file(&full_path).map_err(work_error(what()))?;
            // As git does, remove directories that are empty now.
            let above = full_path
                .ancestors()
                .skip(1)
                .take_while(|full_path| *full_path != checkout.worktree);
            let _none_left = above.map(fs::remove_dir).find(Result::is_err);
        }
    }
    let mut input = Vec::new();
    for path in path_changes.changed.iter().chain(&path_changes.deleted) {
        if file_version::observe(&git, checkout, path, transition) != FileVersion::Foreign {
            input.extend_from_slice(path);
            input.push(0);
        }
    }
    let git = git.with_env("GIT_INDEX_FILE", &index_copy);
    git.run_with_input(["checkout-index", "-f", "-u", "-z", "--stdin"], Input::Bytes(&input))
        .map_err(work_error(what()))?;
    index.install().map_err(work_error(what()))
}
