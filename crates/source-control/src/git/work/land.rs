//! Landing: advances a branch to exactly the verified tree, by compare-and-swap, and updates clean
//! checkouts of it.
//!
//! Meanwhile the landings of this state directory and the index of every checkout of the branch are
//! locked. If a checkout has uncommitted changes, or the branch is in use, the landing is refused before
//! anything changes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use bailiwick_lifecycle::ports::{LandError, Landed, Landing, WorkError};

use super::file_version::Transition;
use super::index_lock::IndexLock;
use super::landing_commits::{self, Committer};
use super::landing_journal::{LandingJournal, Landings};
use super::scratch_directory::ScratchDirectory;
use super::worktree_paths::WorktreePaths;
use super::{checkouts, object_view, recover, work_error};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::resolve_ref;

/// The tip of a missing branch, in errors.
const NO_SUCH_BRANCH: &str = "no commit: it does not exist";

pub(super) fn land(
    paths: &WorktreePaths,
    state: &Path,
    landing: &Landing,
) -> Result<Landed, LandError> {
    let what = || format!("{} cannot be advanced", landing.branch);
    let landings = Landings::lock(state).map_err(work_error(what()))?;
    recover::recover_landings(&landings, state, &paths.common_dir)?;
    let objects = object_view::git(state, paths, &landing.onto)?;
    check_preconditions(&paths.git(), &objects, landing)?;
    let committer = Committer::observe(paths);
    let new = landing_commits::create(&objects, state, &committer, landing)?;
    if landing_commits::tree_of(&objects, &new)? != landing.tree {
        let why = "git created another tree".to_owned();
        return Err(LandError::OtherTree { how: "the commit", why });
    }
    let directory = ScratchDirectory::create(state).map_err(work_error(what()))?;
    let branch_checkouts = checkouts::with_branch(&paths.common_dir, &landing.branch)?;
    let locks = lock_checkouts(paths, state, &objects, landing, &branch_checkouts, &new)?;
    let journal = LandingJournal {
        agent: landing.agent.clone(),
        repository: paths.common_dir.clone(),
        branch: landing.branch.clone(),
        old: landing.expected.clone(),
        new: new.clone(),
        checkouts: branch_checkouts.iter().map(|checkout| checkout.worktree.clone()).collect(),
    };
    let refs = committer.git_as(branch_git(paths, &directory).map_err(work_error(what()))?);
    let commits = ["rev-list", new.as_str(), &format!("^{}", landing.onto)];
    let commits = objects.line(commits).map_err(work_error(what()))?;
    let commits: Vec<String> = commits.lines().map(str::to_owned).collect();
    landings.append_commits(&commits).map_err(work_error(what()))?;
    landings.write_journal(&journal).map_err(work_error(what()))?;
    if let Err(error) =
        move_branch(&refs, &landings, &landing.branch, &new, landing.expected.as_deref())
    {
        landings.remove_journal(&journal).map_err(work_error(what()))?;
        require_expected_tip(&paths.git(), landing)?;
        return Err(work_error(what())(error).into());
    }
    let updated =
        update_checkouts(&landings, &refs, landing, &new, &branch_checkouts, &locks, &objects);
    // A landing that could be neither completed nor undone keeps its journal, so that it is completed later.
    let is_incomplete = matches!(updated, Err(LandError::Work(_)))
        && resolve_ref(&paths.git(), &landing.branch).ok().flatten().as_deref()
            == Some(new.as_str());
    if !is_incomplete {
        landings.remove_journal(&journal).map_err(work_error(what()))?;
    }
    updated?;
    Ok(Landed { commit: new, checkouts: journal.checkouts })
}

/// The error that `land` would return now, found without locks and without changing anything.
pub(super) fn check(
    paths: &WorktreePaths,
    state: &Path,
    landing: &Landing,
) -> Result<(), LandError> {
    let objects = object_view::git(state, paths, &landing.onto)?;
    check_preconditions(&paths.git(), &objects, landing)?;
    let branch_checkouts = checkouts::with_branch(&paths.common_dir, &landing.branch)?;
    checkouts::require_not_in_use(&paths.common_dir, &landing.branch, &branch_checkouts)?;
    let Some(old) = landing.expected.as_deref() else { return Ok(()) };
    for checkout in &branch_checkouts {
        require_no_obstacles(
            &objects,
            &landing.branch,
            checkout,
            Transition { old, new: &landing.tree },
        )?;
    }
    Ok(())
}

/// Refusals that do not depend on checkouts.
fn check_preconditions(git: &Git, objects: &Git, landing: &Landing) -> Result<(), LandError> {
    let what = || format!("{} cannot be advanced", landing.branch);
    let refuse =
        |why: &str| WorkError { what: what(), why: why.to_owned(), caused_by_agent: false };
    if let Some(problem) = name_problem(git, landing).map_err(work_error(what()))? {
        return Err(refuse(&problem).into());
    }
    require_expected_tip(git, landing)?;
    if landing_commits::tree_of(objects, &landing.onto)? == landing.tree {
        let (branch, tree) = (landing.branch.clone(), landing.tree.clone());
        return Err(LandError::Nothing { branch, tree });
    }
    if let Some(expected) = landing.expected.as_deref().filter(|tip| **tip != landing.onto) {
        let forward = ["merge-base", "--is-ancestor", expected, landing.onto.as_str()];
        if !git.succeeds(forward).map_err(work_error(what()))? {
            return Err(refuse("it has commits that the work was not verified with").into());
        }
    }
    Ok(())
}

/// Why a branch cannot be created or advanced under this name: git refuses it, or takes it for something
/// else.
fn name_problem(git: &Git, landing: &Landing) -> Result<Option<String>, GitError> {
    let Some(name) = landing.branch.strip_prefix("refs/heads/") else {
        return Ok(Some("the branch name must begin with refs/heads/".to_owned()));
    };
    let is_object =
        matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let misleading = matches!(name, "HEAD" | "@") || is_object || name.starts_with("refs/");
    if misleading
        || !git.succeeds(["check-ref-format", &landing.branch])?
        || !git.succeeds(["check-ref-format", "--branch", name])?
    {
        return Ok(Some(format!("{name:?} is not a valid branch name; choose another one")));
    }
    if landing.expected.is_some() {
        return Ok(None);
    }
    for other in [format!("refs/tags/{name}"), format!("refs/remotes/{name}")] {
        if resolve_ref(git, &other)?.is_some() {
            return Ok(Some(format!("{other} already exists; choose another name")));
        }
    }
    Ok(None)
}

/// Returns an error if the branch is not at the expected commit.
fn require_expected_tip(git: &Git, landing: &Landing) -> Result<(), LandError> {
    let what = || format!("{} cannot be read", landing.branch);
    let now = resolve_ref(git, &landing.branch).map_err(work_error(what()))?;
    if now.as_deref() == landing.expected.as_deref() {
        return Ok(());
    }
    if landing.expected.is_none() {
        let what = format!("{} cannot be created", landing.branch);
        let why = "a branch of that name already exists; choose another one".to_owned();
        return Err(WorkError { what, why, caused_by_agent: false }.into());
    }
    let now = now.unwrap_or_else(|| NO_SUCH_BRANCH.to_owned());
    Err(LandError::Moved { branch: landing.branch.clone(), now })
}

/// Locks the checkouts of the branch; an error if one has uncommitted changes or is in use.
fn lock_checkouts(
    paths: &WorktreePaths,
    state: &Path,
    objects: &Git,
    landing: &Landing,
    branch_checkouts: &[WorktreePaths],
    new: &str,
) -> Result<Vec<IndexLock>, LandError> {
    let branch = &landing.branch;
    checkouts::require_not_in_use(&paths.common_dir, branch, branch_checkouts)?;
    let mut locks = Vec::new();
    for checkout in branch_checkouts {
        let Some(old) = landing.expected.as_deref() else {
            return Err(LandError::Held {
                branch: branch.clone(),
                checkout: checkout.worktree.clone(),
                why: "it is checked out there, although it has no commit yet".to_owned(),
            });
        };
        locks.push(checkouts::lock(branch, checkout, state)?);
        require_no_obstacles(objects, branch, checkout, Transition { old, new })?;
    }
    // Checked again: an operation may have started before the index was locked.
    checkouts::require_not_in_use(&paths.common_dir, branch, branch_checkouts)?;
    Ok(locks)
}

/// Returns an error if uncommitted changes keep a checkout from being updated.
fn require_no_obstacles(
    objects: &Git,
    branch: &str,
    checkout: &WorktreePaths,
    transition: Transition<'_>,
) -> Result<(), LandError> {
    let what = format!("the state of {} cannot be read", checkout.worktree.display());
    let changes = checkouts::obstacles(objects, checkout, transition.old, transition.new)
        .map_err(work_error(what))?;
    if changes.is_empty() {
        return Ok(());
    }
    let (branch, checkout) = (branch.to_owned(), checkout.worktree.clone());
    Err(LandError::Unclean { branch, checkout, changes })
}

/// Git for the branches, with a HEAD that names none of them: so the lock on the branch is the only one
/// that git takes and can leave behind.
pub(super) fn branch_git(paths: &WorktreePaths, directory: &ScratchDirectory) -> io::Result<Git> {
    if paths.common_dir.join("reftable").exists() {
        return Ok(paths.git());
    }
    fs::write(directory.path().join("HEAD"), "ref: refs/heads/none\n")?;
    let common_dir = [paths.common_dir.as_os_str().as_bytes(), b"\n"].concat();
    fs::write(directory.path().join("commondir"), common_dir)?;
    Ok(Git::at(directory.path()).with_env("GIT_DIR", directory.path()))
}

/// Moves a branch if it is at `old`.
fn move_branch(
    git: &Git,
    landings: &Landings,
    branch: &str,
    new: &str,
    old: Option<&str>,
) -> Result<(), GitError> {
    let nothing = "0".repeat(new.len());
    let old = old.unwrap_or(&nothing);
    let arguments = ["update-ref", "--create-reflog", "-m", "bailiwick: land", branch, new, old];
    git.run_with_input(arguments, Input::File(landings.lock_file())).map(drop)
}

/// Updates the checkouts. If one fails, everything is undone, the branch last: if this process is killed
/// meanwhile, the landing is completed later.
fn update_checkouts(
    landings: &Landings,
    refs: &Git,
    landing: &Landing,
    new: &str,
    branch_checkouts: &[WorktreePaths],
    locks: &[IndexLock],
    objects: &Git,
) -> Result<(), LandError> {
    let Some(old) = landing.expected.as_deref() else { return Ok(()) };
    for (count, (checkout, lock)) in branch_checkouts.iter().zip(locks).enumerate() {
        let Err(error) = checkouts::update_checkout(
            checkout,
            lock,
            landings.lock_file(),
            &["-m", "-u", old, new],
        ) else {
            continue;
        };
        checkouts::restore_checkout(objects, checkout, lock, Transition { old, new })?;
        for (checkout, lock) in branch_checkouts.iter().zip(locks).take(count) {
            checkouts::update_checkout(
                checkout,
                lock,
                landings.lock_file(),
                &["-m", "-u", new, old],
            )?;
        }
        move_branch(refs, landings, &landing.branch, old, Some(new))
            .map_err(work_error(format!("{} cannot be moved back", landing.branch)))?;
        let changes = checkouts::obstacles(objects, checkout, old, new).unwrap_or_default();
        if changes.is_empty() {
            return Err(error.into());
        }
        let (branch, checkout) = (landing.branch.clone(), checkout.worktree.clone());
        return Err(LandError::Unclean { branch, checkout, changes });
    }
    Ok(())
}
