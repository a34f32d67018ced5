//! What a killed process has left is completed or forgotten.
//!
//! The lock of all landings is free only when no git of ours is alive. Then, of a landing that was
//! cut off: a branch that has moved has its checkouts brought along, as far as every file there is
//! either the old or the new one (or what a killed git leaves of the new one); a branch that has not
//! moved is left alone. Locks are removed only if they are ours: an `index.lock` by the text that we
//! put into it; a branch's lock if it has the name of our commit, or is empty and no process has it
//! open.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::WorkError;

use super::checkouts::Moves;
use super::contents::{self, Content, Way};
use super::journal::{Journal, Landings};
use super::places::{self, Places};
use super::{base, checkouts, index_lock, paths, plain, private, trouble};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::resolve_ref;

/// What was done about things that were cut off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Agents whose landing is complete now.
    pub completed: Vec<String>,
    /// Agents whose landing had not begun in earnest.
    pub forgotten: Vec<String>,
    /// Checkouts that could not follow their branch, and why. The record of the landing is kept.
    pub left: Vec<(PathBuf, String)>,
    /// Directories and locks that were removed.
    pub removed: Vec<PathBuf>,
}

/// Completes or forgets what killed processes have left in `state` and in the repository.
pub fn recover(state: &Path, repository: &Path) -> Result<Recovered, WorkError> {
    let what = || "what was cut off cannot be completed".to_owned();
    let state = std::path::absolute(state).map_err(trouble(what()))?;
    let landings = Landings::lock(&state).map_err(trouble(what()))?;
    let mut done = settle(&landings, &state, &places::common(repository)?)?;
    done.removed.extend(private::sweep(&state).map_err(trouble(what()))?);
    Ok(done)
}

/// The same for landings alone, by whoever holds their lock.
pub(super) fn settle(
    landings: &Landings,
    state: &Path,
    common: &Path,
) -> Result<Recovered, WorkError> {
    let what = || "landings that were cut off cannot be completed".to_owned();
    let mut done = Recovered::default();
    for private in checkouts::private_directories(common) {
        if index_lock::clear(&private, state).map_err(trouble(what()))? {
            done.removed.push(private.join("index.lock"));
        }
    }
    for journal in landings.left().map_err(trouble(what()))? {
        if journal.repository != common {
            continue;
        }
        let ends: Vec<&str> = [Some(&journal.new), journal.old.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let cleared = clear_branch_lock(&journal.repository, &journal.branch, &ends);
        done.removed.extend(cleared.map_err(trouble(what()))?);
        let now = resolve_ref(&Git::at(common), &journal.branch).map_err(trouble(what()))?;
        if now.as_deref() != Some(journal.new.as_str()) {
            landings.end(&journal).map_err(trouble(what()))?;
            done.forgotten.push(journal.agent);
            continue;
        }
        let left = complete(landings, state, &journal);
        if left.is_empty() {
            landings.end(&journal).map_err(trouble(what()))?;
            done.completed.push(journal.agent);
        }
        done.left.extend(left);
    }
    Ok(done)
}

/// Brings the checkouts of a branch that has moved along; gives those that stay behind.
fn complete(landings: &Landings, state: &Path, journal: &Journal) -> Vec<(PathBuf, String)> {
    let follow = |path: &PathBuf| match catch_up(landings, state, journal, path) {
        Ok(()) => None,
        Err(error) => Some((path.clone(), error.to_string())),
    };
    journal.checkouts.iter().filter(|path| path.exists()).filter_map(follow).collect()
}

fn catch_up(
    landings: &Landings,
    state: &Path,
    journal: &Journal,
    path: &Path,
) -> Result<(), WorkError> {
    let what = || format!("{} does not follow {}", path.display(), journal.branch);
    let Some(old) = journal.old.as_deref() else { return Ok(()) };
    let checkout = Places::observe(&journal.repository, path)?;
    let git = checkouts::git(&checkout).map_err(trouble(what()))?;
    let head = base::checked_out(&checkout.private, &git).map_err(trouble(what()))?;
    if head.as_deref() != Some(journal.branch.as_str()) {
        return Ok(());
    }
    let lock = checkouts::lock(&journal.branch, &checkout, state).map_err(trouble(what()))?;
    if has_index_of(&git, &journal.new).map_err(trouble(what()))? {
        return Ok(());
    }
    let refuse = |why: String| WorkError { what: what(), why, of_tree: false };
    if !has_index_of(&git, old).map_err(trouble(what()))? {
        return Err(refuse("something is staged there".to_owned()));
    }
    let view = plain::git(state, &checkout, &journal.new)?;
    let moves = Moves::between(&view, old, &journal.new).map_err(trouble(what()))?;
    let foreign = foreign(&git, &checkout, &moves, old, &journal.new).map_err(trouble(what()))?;
    if !foreign.is_empty() {
        return Err(refuse(format!("files are changed there: {}", foreign.join(", "))));
    }
    checkouts::bring(&checkout, &lock, landings.held(), &["--reset", "-u", &journal.new])
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
    checkout: &Places,
    moves: &Moves,
    old: &str,
    new: &str,
) -> Result<Vec<String>, GitError> {
    let options = ["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"];
    let printed = git.run(options)?;
    let mut suspects: Vec<&[u8]> =
        printed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    // What is new is not in the index yet; what is not there is in nobody's way.
    let there = |path: &&[u8]| {
        fs::symlink_metadata(checkout.worktree.join(OsStr::from_bytes(path))).is_ok()
    };
    suspects.extend(moves.added.iter().map(Vec::as_slice).filter(there));
    let way = Way { old, new };
    let moved = |path: &[u8]| {
        let sets = [&moves.added, &moves.deleted, &moves.changed];
        sets.iter().any(|set| set.contains(path))
    };
    let is_foreign = |path: &&[u8]| match contents::observe(git, checkout, path, way) {
        Content::Old | Content::New | Content::Gone => !moved(path),
        Content::Foreign => true,
    };
    Ok(suspects.into_iter().filter(is_foreign).map(paths::shown).collect())
}

/// Removes the lock that a killed git of ours has left on the branch, on the way between commits.
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

/// Whether some process has a file open; where that cannot be told, one has.
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
