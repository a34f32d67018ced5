//! Making workspaces, putting them away, bringing them back.

use std::fs;
use std::path::Path;

use super::places::{Held, private};
use super::{CameBack, Git, Ignored, Input, PutAway, VerbError, file, rebase, refused, rescue};
use crate::git::refs::{full_branch_name, symbolic_ref};
use crate::git::worktree_list::list_worktrees;

/// What happens with changes that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dirty {
    Rescued,
    Refused,
}

pub(super) fn provision(held: &Held<'_>, base: &str) -> Result<(), VerbError> {
    let place = &held.place;
    let _alone = held.alone()?;
    sweep_half_made(held)?;
    if place.path.join(".git").exists() {
        return require_branch(held, &place.path);
    }
    if place.removing().exists() {
        return Err(refused("it was being put away when we were cut off", "recover it"));
    }
    if fs::read_dir(&place.path).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty", place.path.display());
        return Err(refused(reason, "choose another path, or look at what is there"));
    }
    let Some(base) = held.commit(base)? else {
        return Err(refused(format!("{base} is no commit"), "name a branch or a commit"));
    };
    match held.commit(&format!("refs/heads/{}", place.branch))? {
        None => add(held, &["-b", place.branch], &base),
        // An attempt that was cut off left it.
        Some(there) if there == base => add(held, &[], place.branch),
        Some(there) => {
            let reason = format!("the branch {} is there, at {there}", place.branch);
            Err(refused(reason, "recover its workspace, or choose another branch"))
        }
    }
}

fn add(held: &Held<'_>, options: &[&str], what: &str) -> Result<(), VerbError> {
    require_free(held)?;
    let path = shown(&held.place.path)?;
    let mut arguments = vec!["worktree", "add", "--quiet", "--force"];
    arguments.extend(options);
    arguments.extend([path, what]);
    held.common().run_with_input(arguments, held.input())?;
    Ok(())
}

/// A branch that is checked out in two places would be moved under the feet of whoever is in the other.
fn require_free(held: &Held<'_>) -> Result<(), VerbError> {
    let branch = format!("refs/heads/{}", held.place.branch);
    let worktrees = list_worktrees(&held.common(), Input::Nothing)?;
    let other = worktrees.iter().find(|worktree| {
        worktree.branch.as_deref() == Some(branch.as_bytes())
            && !worktree.prunable
            && worktree.path != held.place.path
    });
    let Some(other) = other else { return Ok(()) };
    let reason =
        format!("the branch {} is checked out in {}", held.place.branch, other.path.display());
    Err(refused(reason, "choose another branch, or link that worktree"))
}

/// Git locks a worktree while it fills it: one that is still locked so was cut short, and nobody has
/// worked in it.
fn sweep_half_made(held: &Held<'_>) -> Result<(), VerbError> {
    let path = &held.place.path;
    let worktrees = list_worktrees(&held.common(), Input::Nothing)?;
    if worktrees.iter().any(|worktree| worktree.path == *path && worktree.is_initializing()) {
        if path.exists() {
            fs::remove_dir_all(path).map_err(file(path))?;
        }
        forget(held)?;
    }
    Ok(())
}

/// Has git forget a worktree whose files are gone.
fn forget(held: &Held<'_>) -> Result<(), VerbError> {
    let path = shown(&held.place.path)?;
    let worktrees = list_worktrees(&held.common(), Input::Nothing)?;
    if !worktrees.iter().any(|worktree| worktree.path == held.place.path) {
        return Ok(());
    }
    let arguments = ["worktree", "remove", "--force", "--force", path];
    held.common().run_with_input(arguments, held.input())?;
    Ok(())
}

pub(super) fn put_away(
    held: &Held<'_>,
    ignored: Ignored,
    dirty: Dirty,
) -> Result<PutAway, VerbError> {
    let place = &held.place;
    let _alone = held.alone()?;
    if place.path.join(".git").exists() {
        if place.removing().exists() {
            let reason = format!(
                "{} and {} are both there",
                place.path.display(),
                place.removing().display()
            );
            return Err(refused(reason, "look at both, and remove one"));
        }
        if rebase::is_under_way_in(&place.path)? {
            return Err(refused("a rebase is under way in it", "finish or abort it first"));
        }
        require_branch(held, &place.path)?;
        require_settled(&held.git())?;
        // From here on nobody finds it where it was.
        fs::rename(&place.path, place.removing()).map_err(file(&place.path))?;
    } else if place.path.exists() {
        let reason = format!("{} is no worktree", place.path.display());
        return Err(refused(reason, "look at what is there"));
    }
    if place.removing().exists() {
        let kept = keep(held, ignored, dirty);
        if kept.is_err() {
            fs::rename(place.removing(), &place.path).map_err(file(&place.path))?;
        }
        kept?;
        discard(&place.removed())?;
        fs::rename(place.removing(), place.removed()).map_err(file(&place.path))?;
    }
    discard(&place.removed())?;
    if held.commit(&format!("refs/heads/{}", place.branch))?.is_none() {
        let reason = format!("there is no branch {}", place.branch);
        return Err(refused(reason, "there is nothing to put away"));
    }
    forget(held)?;
    let there = held.commit(&place.rescue())?;
    Ok(PutAway { rescued: there.map(|_| place.rescue()) })
}

/// Keeps what is not committed under a reference.
fn keep(held: &Held<'_>, ignored: Ignored, dirty: Dirty) -> Result<(), VerbError> {
    let place = &held.place;
    let files = place.removing();
    // Git is told where the files are now; it would look where they were.
    let git = Git::at(&files)
        .with_env("GIT_DIR", private(&files)?)
        .with_env("GIT_WORK_TREE", &files);
    let Some(rescued) = rescue::take(&git, &files, ignored, true, held.input())? else {
        return Ok(());
    };
    if rescued.dirty && dirty == Dirty::Refused {
        return Err(refused("it has changes that are not committed", "commit them, or archive it"));
    }
    let name = place.rescue();
    if let Some(before) = held.commit(&name)? {
        let older = format!("refs/bailiwick/rescued-before/{}/{before}", place.name);
        held.common().run_with_input(["update-ref", &older, &before], held.input())?;
    }
    held.common().run_with_input(["update-ref", &name, &rescued.commit], held.input())?;
    Ok(())
}

fn discard(directory: &Path) -> Result<(), VerbError> {
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(file(directory))?;
    }
    Ok(())
}

/// A commit that no branch has would be lost with the worktree.
fn require_branch(held: &Held<'_>, path: &Path) -> Result<(), VerbError> {
    let head = symbolic_ref(&Git::at(path), "HEAD")?;
    if head.as_deref() == Some(&full_branch_name(held.place.branch)) {
        return Ok(());
    }
    let reason = format!("it is not on its branch {}", held.place.branch);
    Err(refused(reason, "check the branch out there first"))
}

fn require_settled(git: &Git) -> Result<(), VerbError> {
    if git.run(["ls-files", "--unmerged", "-z"])?.is_empty() {
        return Ok(());
    }
    Err(refused("it has conflicts that are not settled", "settle them first"))
}

pub(super) fn recover(held: &Held<'_>) -> Result<CameBack, VerbError> {
    let place = &held.place;
    let _alone = held.alone()?;
    sweep_half_made(held)?;
    let rescued = held.commit(&place.rescue())?;
    if place.path.join(".git").exists() {
        // What was rescued is still there: a recovery was cut off.
        let Some(rescued) = rescued else {
            return Err(refused("its files are there", "use it as it is"));
        };
        return with_rescued(held, &rescued);
    }
    if place.removing().exists() {
        // git has put an empty directory there, or nobody has put anything.
        if place.path.exists() {
            fs::remove_dir(&place.path).map_err(file(&place.path))?;
        }
        fs::rename(place.removing(), &place.path).map_err(file(&place.path))?;
        return Ok(CameBack::AsTheyWere);
    }
    if fs::read_dir(&place.path).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty", place.path.display());
        return Err(refused(reason, "look at what is there, and move it away"));
    }
    let branch = held.commit(&format!("refs/heads/{}", place.branch))?;
    match (branch, &rescued) {
        (Some(_), _) => add(held, &[], place.branch)?,
        (None, Some(rescued)) => add(held, &["-b", place.branch], &format!("{rescued}^1"))?,
        (None, None) => {
            let reason =
                format!("neither the branch {} nor {} is there", place.branch, place.rescue());
            return Err(refused(reason, "there is nothing to recover it from"));
        }
    }
    rescued.map_or(Ok(CameBack::FromBranch), |rescued| with_rescued(held, &rescued))
}

fn with_rescued(held: &Held<'_>, rescued: &str) -> Result<CameBack, VerbError> {
    let place = &held.place;
    rescue::put_back(&held.git(), &place.path, rescued)?;
    held.common().run_with_input(["update-ref", "-d", &place.rescue(), rescued], held.input())?;
    Ok(CameBack::WithRescued)
}

fn shown(path: &Path) -> Result<&str, VerbError> {
    path.to_str().ok_or_else(|| refused("its path is not UTF-8", "choose another"))
}
