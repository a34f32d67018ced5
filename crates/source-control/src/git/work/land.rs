//! Landing: a branch is advanced to exactly the verified tree, by compare-and-swap, and clean
//! checkouts of it follow.
//!
//! Held meanwhile: the lock of all landings of this state, and the index of every checkout that has
//! the branch. A checkout that is not clean, or a branch that something else is using, is refused
//! before anything moves.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use bailiwick_control::ports::{LandError, Landed, Landing, WorkError};

use super::commits::{self, Person};
use super::contents::Way;
use super::index_lock::IndexLock;
use super::journal::{Journal, Landings};
use super::places::Places;
use super::private::PrivateDirectory;
use super::{checkouts, plain, recover, trouble};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::resolve_ref;

/// What a branch is at when it is not there.
const NOWHERE: &str = "no commit: it is not there";

/// Lands.
pub(super) fn land(places: &Places, state: &Path, landing: &Landing) -> Result<Landed, LandError> {
    let what = || format!("{} cannot be advanced", landing.branch);
    let landings = Landings::lock(state).map_err(trouble(what()))?;
    recover::settle(&landings, state, &places.common)?;
    let view = plain::git(state, places, &landing.onto)?;
    require_sound(&places.git(), &view, landing)?;
    let person = Person::observe(places);
    let new = commits::make(&view, state, &person, landing)?;
    if commits::tree_of(&view, &new)? != landing.tree {
        let why = "git made another one".to_owned();
        return Err(LandError::OtherTree { how: "the commit", why });
    }
    let directory = PrivateDirectory::make(state).map_err(trouble(what()))?;
    let following = checkouts::having(&places.common, &landing.branch)?;
    let locks = require_clean(places, state, &view, landing, &following, &new)?;
    let journal = Journal {
        agent: landing.agent.clone(),
        repository: places.common.clone(),
        branch: landing.branch.clone(),
        old: landing.expected.clone(),
        new: new.clone(),
        checkouts: following.iter().map(|checkout| checkout.worktree.clone()).collect(),
    };
    let refs = person.sign(references(places, &directory).map_err(trouble(what()))?);
    let brought = ["rev-list", new.as_str(), &format!("^{}", landing.onto)];
    let brought = view.line(brought).map_err(trouble(what()))?;
    let brought: Vec<String> = brought.lines().map(str::to_owned).collect();
    landings.note(&brought).map_err(trouble(what()))?;
    landings.begin(&journal).map_err(trouble(what()))?;
    if let Err(error) = swap(&refs, &landings, &landing.branch, &new, landing.expected.as_deref()) {
        landings.end(&journal).map_err(trouble(what()))?;
        require_there(&places.git(), landing)?;
        return Err(trouble(what())(error).into());
    }
    let followed = follow(&landings, &refs, landing, &new, &following, &locks, &view);
    // What could be neither done nor undone is left to be completed.
    let undecided = matches!(followed, Err(LandError::Work(_)))
        && resolve_ref(&places.git(), &landing.branch).ok().flatten().as_deref() == Some(new.as_str());
    if !undecided {
        landings.end(&journal).map_err(trouble(what()))?;
    }
    followed?;
    Ok(Landed { commit: new, checkouts: journal.checkouts })
}

/// What `land` would refuse now, found without locks and without changing anything.
pub(super) fn check(places: &Places, state: &Path, landing: &Landing) -> Result<(), LandError> {
    let view = plain::git(state, places, &landing.onto)?;
    require_sound(&places.git(), &view, landing)?;
    let following = checkouts::having(&places.common, &landing.branch)?;
    checkouts::require_free(&places.common, &landing.branch, &following)?;
    let Some(old) = landing.expected.as_deref() else { return Ok(()) };
    for checkout in &following {
        require_unobstructed(&view, &landing.branch, checkout, Way { old, new: &landing.tree })?;
    }
    Ok(())
}

/// What can be refused without looking at any checkout.
fn require_sound(git: &Git, view: &Git, landing: &Landing) -> Result<(), LandError> {
    let what = || format!("{} cannot be advanced", landing.branch);
    let refuse = |why: &str| WorkError { what: what(), why: why.to_owned(), of_tree: false };
    if let Some(problem) = name_problem(git, landing).map_err(trouble(what()))? {
        return Err(refuse(&problem).into());
    }
    require_there(git, landing)?;
    if commits::tree_of(view, &landing.onto)? == landing.tree {
        let (branch, tree) = (landing.branch.clone(), landing.tree.clone());
        return Err(LandError::Nothing { branch, tree });
    }
    if let Some(expected) = landing.expected.as_deref().filter(|tip| **tip != landing.onto) {
        let forward = ["merge-base", "--is-ancestor", expected, landing.onto.as_str()];
        if !git.succeeds(forward).map_err(trouble(what()))? {
            return Err(refuse("it has commits that the work was not verified on").into());
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

/// An error if the branch is not where it must be.
fn require_there(git: &Git, landing: &Landing) -> Result<(), LandError> {
    let what = || format!("{} cannot be read", landing.branch);
    let now = resolve_ref(git, &landing.branch).map_err(trouble(what()))?;
    if now == landing.expected {
        return Ok(());
    }
    if landing.expected.is_none() {
        let what = format!("{} cannot be made", landing.branch);
        let why = "there is a branch of that name already; choose another one".to_owned();
        return Err(WorkError { what, why, of_tree: false }.into());
    }
    let now = now.unwrap_or_else(|| NOWHERE.to_owned());
    Err(LandError::Moved { branch: landing.branch.clone(), now })
}

/// Locks the checkouts that have the branch; an error if one is not clean or is in use.
fn require_clean(
    places: &Places,
    state: &Path,
    view: &Git,
    landing: &Landing,
    following: &[Places],
    new: &str,
) -> Result<Vec<IndexLock>, LandError> {
    let branch = &landing.branch;
    checkouts::require_free(&places.common, branch, following)?;
    let mut locks = Vec::new();
    for checkout in following {
        let Some(old) = landing.expected.as_deref() else {
            return Err(LandError::Held {
                branch: branch.clone(),
                checkout: checkout.worktree.clone(),
                why: "it is checked out there, though it has no commit yet".to_owned(),
            });
        };
        locks.push(checkouts::lock(branch, checkout, state)?);
        require_unobstructed(view, branch, checkout, Way { old, new })?;
    }
    // Nobody can have begun something after we looked: that takes the index.
    checkouts::require_free(&places.common, branch, following)?;
    Ok(locks)
}

/// An error if a checkout has changes that stand against the way from one commit to another.
fn require_unobstructed(
    view: &Git,
    branch: &str,
    checkout: &Places,
    way: Way<'_>,
) -> Result<(), LandError> {
    let what = format!("the state of {} cannot be told", checkout.worktree.display());
    let changes = checkouts::obstacles(view, checkout, way.old, way.new).map_err(trouble(what))?;
    if changes.is_empty() {
        return Ok(());
    }
    let (branch, checkout) = (branch.to_owned(), checkout.worktree.clone());
    Err(LandError::Unclean { branch, checkout, changes })
}

/// Git over the branches, with a HEAD that names none of them: a lock on the branch is then the
/// only one that git takes, and the only one that it can leave behind.
pub(super) fn references(places: &Places, directory: &PrivateDirectory) -> io::Result<Git> {
    if places.common.join("reftable").exists() {
        return Ok(places.git());
    }
    fs::write(directory.path().join("HEAD"), "ref: refs/heads/none\n")?;
    let common = [places.common.as_os_str().as_bytes(), b"\n"].concat();
    fs::write(directory.path().join("commondir"), common)?;
    Ok(Git::at(directory.path()).with_env("GIT_DIR", directory.path()))
}

/// Moves a branch if it is where it must be.
fn swap(
    git: &Git,
    landings: &Landings,
    branch: &str,
    new: &str,
    old: Option<&str>,
) -> Result<(), GitError> {
    let nothing = "0".repeat(new.len());
    let old = old.unwrap_or(&nothing);
    let arguments = ["update-ref", "--create-reflog", "-m", "bailiwick: land", branch, new, old];
    git.run_with_input(arguments, Input::File(landings.held())).map(drop)
}

/// Brings the checkouts along. If one does not follow, all of it is undone, the branch last: were
/// we killed half-way, the landing would be completed.
fn follow(
    landings: &Landings,
    refs: &Git,
    landing: &Landing,
    new: &str,
    following: &[Places],
    locks: &[IndexLock],
    view: &Git,
) -> Result<(), LandError> {
    let Some(old) = landing.expected.as_deref() else { return Ok(()) };
    for (count, (checkout, lock)) in following.iter().zip(locks).enumerate() {
        let Err(error) = checkouts::bring(checkout, lock, landings.held(), &["-m", "-u", old, new])
        else {
            continue;
        };
        checkouts::put_back(view, checkout, lock, Way { old, new })?;
        for (checkout, lock) in following.iter().zip(locks).take(count) {
            checkouts::bring(checkout, lock, landings.held(), &["-m", "-u", new, old])?;
        }
        swap(refs, landings, &landing.branch, old, Some(new))
            .map_err(trouble(format!("{} cannot be moved back", landing.branch)))?;
        let changes = checkouts::obstacles(view, checkout, old, new).unwrap_or_default();
        if changes.is_empty() {
            return Err(error.into());
        }
        let (branch, checkout) = (landing.branch.clone(), checkout.worktree.clone());
        return Err(LandError::Unclean { branch, checkout, changes });
    }
    Ok(())
}
