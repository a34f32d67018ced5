//! Completing or discarding landings that a killed process left.
//!
//! The lock of all landings is free only when no git of a landing is alive. If the branch has moved, its
//! checkouts are updated, provided that every file there is either the old or the new version (or the
//! beginning of the new one). If it has not moved, the landing is discarded. Locks are removed only if
//! they are ours: an `index.lock` by its content; the lock of a branch if it contains the name of our
//! commit, or is empty and no process has it open.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_model::CommitId;

use super::checkouts::PathChanges;
use super::escaped_path::escape_path;
use super::file_version::{self, FileVersion, Transition};
use super::landing_journal::{LandingJournal, Landings};
use super::worktree_paths::{self, WorktreePaths};
use super::{base_branch, checkouts, index_lock, object_view, scratch_directory, work_error};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::resolve_ref;

/// What was done about interrupted landings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Agents whose landing was completed.
    pub completed: Vec<String>,
    /// Agents whose landing was discarded: the branch had not moved.
    pub discarded: Vec<String>,
    /// Checkouts that could not be updated, and why. The journal of the landing is kept.
    pub failed: Vec<(PathBuf, String)>,
    /// Directories and locks that were removed.
    pub removed: Vec<PathBuf>,
}

/// Completes or discards what killed processes left in `state` and in the repository.
pub fn recover(state: &Path, repository: &Path) -> Result<Recovery, WorkError> {
    let what = || "an interrupted landing cannot be completed".to_owned();
    let state = std::path::absolute(state).map_err(work_error(what()))?;
    let landings = Landings::lock(&state).map_err(work_error(what()))?;
    let mut recovery =
        recover_landings(&landings, &state, &worktree_paths::find_common_dir(repository)?)?;
    recovery.removed.extend(scratch_directory::sweep(&state).map_err(work_error(what()))?);
    Ok(recovery)
}

/// The same for landings only; the caller has locked them.
pub(super) fn recover_landings(
    landings: &Landings,
    state: &Path,
    common_dir: &Path,
) -> Result<Recovery, WorkError> {
    let what = || "an interrupted landing cannot be completed".to_owned();
    let mut recovery = Recovery::default();
    for git_dir in checkouts::git_directories(common_dir) {
        if index_lock::remove_stale(&git_dir, state).map_err(work_error(what()))? {
            recovery.removed.push(git_dir.join("index.lock"));
        }
    }
    for journal in landings.unfinished().map_err(work_error(what()))? {
        if journal.repository != common_dir {
            continue;
        }
        let ends: Vec<&str> = [Some(&journal.new), journal.old.as_ref()]
            .into_iter()
            .flatten()
            .map(CommitId::as_str)
            .collect();
        let cleared = clear_branch_lock(&journal.repository, &journal.branch, &ends);
        recovery.removed.extend(cleared.map_err(work_error(what()))?);
        let now = resolve_ref(&Git::at(common_dir), &journal.branch).map_err(work_error(what()))?;
        if now.as_deref() != Some(journal.new.as_str()) {
            landings.remove_journal(&journal).map_err(work_error(what()))?;
            recovery.discarded.push(journal.agent);
            continue;
        }
        let failed = complete(landings, state, &journal);
        if failed.is_empty() {
            landings.remove_journal(&journal).map_err(work_error(what()))?;
            recovery.completed.push(journal.agent);
        }
        recovery.failed.extend(failed);
    }
    Ok(recovery)
}

/// Updates the checkouts of a branch that has moved; returns those that could not be updated.
fn complete(landings: &Landings, state: &Path, journal: &LandingJournal) -> Vec<(PathBuf, String)> {
    let failure = |path: &PathBuf| match update_after_interruption(landings, state, journal, path) {
        Ok(()) => None,
        Err(error) => Some((path.clone(), error.to_string())),
    };
    journal.checkouts.iter().filter(|path| path.exists()).filter_map(failure).collect()
}

fn update_after_interruption(
    landings: &Landings,
    state: &Path,
    journal: &LandingJournal,
    path: &Path,
) -> Result<(), WorkError> {
    let what = || format!("{} cannot be updated to {}", path.display(), journal.branch);
    let Some(old) = journal.old.as_deref() else { return Ok(()) };
    let checkout = WorktreePaths::observe(&journal.repository, path)?;
    let git = checkouts::git(&checkout).map_err(work_error(what()))?;
    let head = base_branch::head_branch(&checkout.git_dir, &git).map_err(work_error(what()))?;
    if head.as_deref() != Some(journal.branch.as_str()) {
        return Ok(());
    }
    let lock = checkouts::lock(&journal.branch, &checkout, state).map_err(work_error(what()))?;
    if has_index_of(&git, &journal.new).map_err(work_error(what()))? {
        return Ok(());
    }
    let refuse = |why: String| WorkError { what: what(), why, caused_by_agent: false };
    if !has_index_of(&git, old).map_err(work_error(what()))? {
        return Err(refuse("it has staged changes".to_owned()));
    }
    let objects = object_view::git(state, &checkout, &journal.new)?;
    let path_changes =
        PathChanges::between(&objects, old, &journal.new).map_err(work_error(what()))?;
    let foreign =
        foreign(&git, &checkout, &path_changes, old, &journal.new).map_err(work_error(what()))?;
    if !foreign.is_empty() {
        return Err(refuse(format!("it has changed files: {}", foreign.join(", "))));
    }
    checkouts::update_checkout(
        &checkout,
        &lock,
        landings.lock_file(),
        &["--reset", "-u", &journal.new],
    )
}

fn has_index_of(git: &Git, commit: &str) -> Result<bool, GitError> {
    let arguments = ["diff-index", "--cached", "--quiet", "--ignore-submodules=none", commit, "--"];
    let output = git.output(arguments, Input::Nothing)?;
    match output.exit_code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(output.into_error()),
    }
}

/// Files that somebody else has changed: those that are neither as in the old commit, nor as in the
/// new one, nor a part of the latter.
fn foreign(
    git: &Git,
    checkout: &WorktreePaths,
    path_changes: &PathChanges,
    old: &str,
    new: &str,
) -> Result<Vec<String>, GitError> {
    let options = ["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"];
    let stdout = git.run(options)?;
    let mut suspects: Vec<&[u8]> =
        stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    // New files are not in the index yet.
    let exists = |path: &&[u8]| {
        fs::symlink_metadata(checkout.worktree.join(OsStr::from_bytes(path))).is_ok()
    };
    suspects.extend(path_changes.added.iter().map(Vec::as_slice).filter(exists));
    let transition = Transition { old, new };
    let moved = |path: &[u8]| {
        let sets = [&path_changes.added, &path_changes.deleted, &path_changes.changed];
        sets.iter().any(|set| set.contains(path))
    };
    let is_foreign = |path: &&[u8]| match file_version::observe(git, checkout, path, transition) {
        FileVersion::Old | FileVersion::New | FileVersion::Missing => !moved(path),
        FileVersion::Foreign => true,
    };
    Ok(suspects.into_iter().filter(is_foreign).map(escape_path).collect())
}

/// Removes the lock that a killed git of ours left on a branch while it moved between `commits`.
pub(super) fn clear_branch_lock(
    repository: &Path,
    branch: &str,
    commits: &[&str],
) -> std::io::Result<Option<PathBuf>> {
    let lock = repository.join(format!("{branch}.lock"));
    let Ok(text) = fs::read(&lock) else { return Ok(None) };
    let ours = commits.iter().any(|commit| text.trim_ascii() == commit.as_bytes());
    if ours || (text.is_empty() && !is_open(&lock)?) {
        fs::remove_file(&lock)?;
        return Ok(Some(lock));
    }
    Ok(None)
}

/// Whether a process has a file open; true if this cannot be found out.
fn is_open(path: &Path) -> std::io::Result<bool> {
    let wanted = fs::metadata(path)?;
    let Ok(processes) = fs::read_dir("/proc") else { return Ok(true) };
    for process in processes.flatten() {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        for file in files {
            let same = fs::metadata(file.path())
                .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()));
            if same {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
