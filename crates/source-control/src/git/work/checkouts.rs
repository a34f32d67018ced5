//! Checkouts of a branch: who has it, whether they are clean, and how they follow it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::{LandError, WorkError};

use super::contents::{self, Content, Way};
use super::index_lock::IndexLock;
use super::places::Places;
use super::{filtered, paths, programs, trouble};
use crate::git::command::{Git, GitError, Input};
use crate::git::worktree_list::list_worktrees;

/// How many changes are told of a checkout that is not clean.
const TOLD: usize = 10;

/// The directories of every worktree, the main one first.
pub(super) fn private_directories(common: &Path) -> Vec<PathBuf> {
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let mut all = vec![common.to_owned()];
    all.extend(linked.map(|entry| entry.path()));
    all
}

/// The checkouts that have `branch`. Those that are gone are left out.
pub(super) fn having(common: &Path, branch: &str) -> Result<Vec<Places>, WorkError> {
    let what = || format!("the checkouts of {branch} cannot be found");
    let worktrees = list_worktrees(&Git::at(common), Input::Nothing).map_err(trouble(what()))?;
    worktrees
        .iter()
        .filter(|worktree| worktree.branch.as_deref() == Some(branch.as_bytes()))
        .filter(|worktree| worktree.path.exists())
        .map(|worktree| Places::observe(common, &worktree.path))
        .collect()
}

/// An error if something is going on that will move the branch, or take it for where it was.
pub(super) fn require_free(
    common: &Path,
    branch: &str,
    checkouts: &[Places],
) -> Result<(), LandError> {
    let held = |checkout: PathBuf, why: &str| {
        Err(LandError::Held { branch: branch.to_owned(), checkout, why: why.to_owned() })
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    for private in private_directories(common) {
        let says = |file: &str, name: &str| {
            let text = fs::read(private.join(file)).unwrap_or_default();
            text.split(|byte| *byte == b'\n').any(|line| line == name.as_bytes())
        };
        for file in ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"]
        {
            if says(file, branch) {
                return held(place_of(&private), "a rebase is in progress; finish or abort it");
            }
        }
        if says("BISECT_START", short) {
            return held(
                place_of(&private),
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
            if checkout.private.join(name).exists() {
                return held(checkout.worktree.clone(), why);
            }
        }
    }
    Ok(())
}

/// Where the worktree of this directory is, as well as it can be told.
fn place_of(private: &Path) -> PathBuf {
    let named = fs::read_to_string(private.join("gitdir")).ok();
    let git = named.map_or_else(|| private.to_owned(), |text| private.join(text.trim_end()));
    if git.ends_with(".git") { git.parent().map_or(git.clone(), Path::to_owned) } else { git }
}

/// Locks the index of a checkout; an error if somebody else is writing it.
pub(super) fn lock(branch: &str, checkout: &Places, state: &Path) -> Result<IndexLock, LandError> {
    let what = format!("the index of {} cannot be locked", checkout.worktree.display());
    let taken = IndexLock::take(&checkout.private, state).map_err(trouble(what))?;
    taken.ok_or_else(|| LandError::Held {
        branch: branch.to_owned(),
        checkout: checkout.worktree.clone(),
        why: "another git is at work there, or one that was killed left its index.lock".to_owned(),
    })
}

/// Git in a checkout, with no filter to run.
pub(super) fn git(checkout: &Places) -> Result<Git, GitError> {
    Ok(checkout.agent_git().with_settings(&programs::without_filters(checkout)?))
}

/// What stands against a change of the checkout from one commit to another: changes that are not
/// committed, and files nobody tracks where new ones would be.
pub(super) fn obstacles(
    view: &Git,
    checkout: &Places,
    old: &str,
    new: &str,
) -> Result<Vec<String>, GitError> {
    let options = ["--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
    let status = ["status"].into_iter().chain(options).chain(["--ignore-submodules=dirty"]);
    let printed = git(checkout)?.run(status)?;
    let fields = printed.split(|byte| *byte == 0);
    let changed = fields.filter_map(|line| line.get(3..)).map(<[u8]>::to_vec);
    let changed = without_filtered(checkout, changed.collect())?;
    let mut found: Vec<String> = changed.iter().map(|path| paths::shown(path)).collect();
    // The index may be at another commit than the branch, though no file is changed.
    found.extend(untracked(&Moves::between(view, old, new)?, &checkout.worktree));
    found.truncate(TOLD);
    Ok(found)
}

/// Leaves out files that are stored through a filter, and that nobody touched since git wrote the index: git has
/// to read those that are as young as the index, and without the filter they look changed.
pub(super) fn without_filtered(
    checkout: &Places,
    changed: BTreeSet<Vec<u8>>,
) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let unread = |error| {
        GitError::io(format!("cannot read the index of {}", checkout.worktree.display()), error)
    };
    if changed.is_empty() {
        return Ok(changed);
    }
    let index = match fs::read(checkout.private.join("index")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(changed),
        index => index.map_err(unread)?,
    };
    if !filtered::may_be_any(checkout, &index) {
        return Ok(changed);
    }
    let untouched = filtered::untouched(&git(checkout)?, &checkout.worktree, &index, &changed)?;
    Ok(changed.into_iter().filter(|path| !untouched.contains_key(path)).collect())
}

/// Paths that appear and vanish from one commit to another, and those that stay but change.
pub(super) struct Moves {
    pub(super) added: BTreeSet<Vec<u8>>,
    pub(super) deleted: BTreeSet<Vec<u8>>,
    pub(super) changed: BTreeSet<Vec<u8>>,
}

impl Moves {
    pub(super) fn between(view: &Git, old: &str, new: &str) -> Result<Self, GitError> {
        let options = ["diff-tree", "-r", "-z", "--no-renames", "--name-status"];
        let options = options.into_iter().chain(["--ignore-submodules=none", old, new, "--"]);
        let printed = view.run(options)?;
        let mut moves =
            Self { added: BTreeSet::new(), deleted: BTreeSet::new(), changed: BTreeSet::new() };
        let mut fields = printed.split(|byte| *byte == 0);
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            let set = match status {
                b"A" => &mut moves.added,
                b"D" => &mut moves.deleted,
                _ => &mut moves.changed,
            };
            set.insert(path.to_owned());
        }
        Ok(moves)
    }
}

/// Files on the way of new ones that nobody tracks, ignored or not: git would refuse, or overwrite
/// those that are ignored.
fn untracked(moves: &Moves, root: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    for path in &moves.added {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let Some(part) = path.get(..end) else { continue };
            let place = root.join(OsStr::from_bytes(part));
            let Ok(there) = fs::symlink_metadata(&place) else { break };
            if !there.is_dir() {
                if !moves.deleted.contains(part) {
                    found.insert(paths::shown(part));
                }
                break;
            }
            if end == path.len() {
                found.extend(strays(&place, part, moves));
            }
        }
    }
    found.into_iter().collect()
}

/// Files below a directory that do not vanish with the old commit.
fn strays(directory: &Path, name: &[u8], moves: &Moves) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = [name, b"/", entry.file_name().as_bytes()].concat();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(strays(&entry.path(), &name, moves));
        } else if !moves.deleted.contains(&name) {
            found.push(paths::shown(&name));
        }
    }
    found
}

/// Brings a clean checkout from one commit to another. Git looks once more at every file that it
/// would touch.
pub(super) fn bring(
    checkout: &Places,
    index: &IndexLock,
    held: &File,
    how: &[&str],
) -> Result<(), WorkError> {
    let what = || format!("{} cannot be brought along", checkout.worktree.display());
    let fresh = index.fresh_copy().map_err(trouble(what()))?;
    let git = git(checkout).map_err(trouble(what()))?.with_env("GIT_INDEX_FILE", &fresh);
    // A file that was only touched, or whose owner changed, is no change. What is one, stops what follows.
    let _looked = git.run_with_input(["update-index", "-q", "--refresh"], Input::File(held));
    let arguments = ["read-tree", "--no-recurse-submodules"].iter().chain(how);
    git.run_with_input(arguments, Input::File(held)).map_err(trouble(what()))?;
    index.install().map_err(trouble(what()))
}

/// Undoes what a git that failed half-way has done to a checkout; files of anybody else's stay.
pub(super) fn put_back(
    view: &Git,
    checkout: &Places,
    index: &IndexLock,
    way: Way<'_>,
) -> Result<(), WorkError> {
    let what = || format!("{} cannot be put back", checkout.worktree.display());
    let moves = Moves::between(view, way.old, way.new).map_err(trouble(what()))?;
    let fresh = index.fresh_copy().map_err(trouble(what()))?;
    let git = git(checkout).map_err(trouble(what()))?;
    for path in &moves.added {
        if contents::observe(&git, checkout, path, way) == Content::New {
            let place = checkout.worktree.join(OsStr::from_bytes(path));
            fs::remove_file(&place).map_err(trouble(what()))?;
            // Directories that nothing is in any more, as git does.
            let above = place.ancestors().skip(1).take_while(|place| *place != checkout.worktree);
            let _none_left = above.map(fs::remove_dir).find(Result::is_err);
        }
    }
    let mut input = Vec::new();
    for path in moves.changed.iter().chain(&moves.deleted) {
        if contents::observe(&git, checkout, path, way) != Content::Foreign {
            input.extend_from_slice(path);
            input.push(0);
        }
    }
    let git = git.with_env("GIT_INDEX_FILE", &fresh);
    git.run_with_input(["checkout-index", "-f", "-u", "-z", "--stdin"], Input::Bytes(&input))
        .map_err(trouble(what()))?;
    index.install().map_err(trouble(what()))
}
