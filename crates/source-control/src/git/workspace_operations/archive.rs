//! Creating, archiving and recovering workspaces.

use std::fs;
use std::path::Path;

use super::locked_workspace::{LockedWorkspace, git_dir};
use super::{
    Archived, Git, IgnoredFiles, Input, OperationError, RestoredFrom, file, rebase, refused, rescue,
};
use crate::git::refs::{full_branch_name, symbolic_ref};
use crate::git::worktree_list::list_worktrees;

/// What happens to uncommitted changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UncommittedChanges {
    Rescue,
    Refuse,
}

pub(super) fn provision(locked: &LockedWorkspace<'_>, base: &str) -> Result<(), OperationError> {
    let workspace = &locked.workspace;
    let _lock = locked.lock_all_worktrees()?;
    remove_incomplete_worktree(locked)?;
    if workspace.path.join(".git").exists() {
        return require_branch(locked, &workspace.path);
    }
    if workspace.removing_path().exists() {
        return Err(refused("archiving it was interrupted", "recover it"));
    }
    if fs::read_dir(&workspace.path).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty", workspace.path.display());
        return Err(refused(reason, "choose another path, or check its files"));
    }
    let Some(base) = locked.commit(base)? else {
        return Err(refused(format!("{base} is not a commit"), "name a branch or a commit"));
    };
    match locked.commit(&full_branch_name(workspace.branch))? {
        None => add(locked, &["-b", workspace.branch], &base),
        // An interrupted attempt created it.
        Some(commit) if commit == base => add(locked, &[], workspace.branch),
        Some(commit) => {
            let reason = format!("the branch {} exists, at {commit}", workspace.branch);
            Err(refused(reason, "recover its workspace, or choose another branch"))
        }
    }
}

fn add(locked: &LockedWorkspace<'_>, options: &[&str], what: &str) -> Result<(), OperationError> {
    require_branch_not_in_use(locked)?;
    let path = utf8_path(&locked.workspace.path)?;
    let mut arguments = vec!["worktree", "add", "--quiet", "--force"];
    arguments.extend(options);
    arguments.extend([path, what]);
    locked.run(arguments)
}

/// A branch must not be checked out twice: a commit in one worktree would move the other's branch.
fn require_branch_not_in_use(locked: &LockedWorkspace<'_>) -> Result<(), OperationError> {
    let branch = full_branch_name(locked.workspace.branch);
    let worktrees = list_worktrees(&locked.repository_git(), Input::Nothing)?;
    let other = worktrees.iter().find(|worktree| {
        worktree.branch.as_deref() == Some(branch.as_bytes())
            && !worktree.prunable
            && worktree.path != locked.workspace.path
    });
    let Some(other) = other else { return Ok(()) };
    let reason = format!(
        "the branch {} is checked out in {}",
        locked.workspace.branch,
        other.path.display()
    );
    Err(refused(reason, "choose another branch, or link that worktree"))
}

/// Removes a worktree that git did not finish to create: nobody has worked in it.
fn remove_incomplete_worktree(locked: &LockedWorkspace<'_>) -> Result<(), OperationError> {
    let path = &locked.workspace.path;
    let worktrees = list_worktrees(&locked.repository_git(), Input::Nothing)?;
    if worktrees.iter().any(|worktree| worktree.path == *path && worktree.is_initializing()) {
        if path.exists() {
            fs::remove_dir_all(path).map_err(file(path))?;
        }
        unregister_worktree(locked)?;
    }
    Ok(())
}

/// Unregisters a worktree whose files are gone.
fn unregister_worktree(locked: &LockedWorkspace<'_>) -> Result<(), OperationError> {
    let path = utf8_path(&locked.workspace.path)?;
    let worktrees = list_worktrees(&locked.repository_git(), Input::Nothing)?;
    if !worktrees.iter().any(|worktree| worktree.path == locked.workspace.path) {
        return Ok(());
    }
    let arguments = ["worktree", "remove", "--force", "--force", path];
    locked.run(arguments)
}

pub(super) fn archive(
    locked: &LockedWorkspace<'_>,
    ignored: IgnoredFiles,
    uncommitted: UncommittedChanges,
) -> Result<Archived, OperationError> {
    let workspace = &locked.workspace;
    let _lock = locked.lock_all_worktrees()?;
    if workspace.path.join(".git").exists() {
        if workspace.removing_path().exists() {
            let reason = format!(
                "{} and {} both exist",
                workspace.path.display(),
                workspace.removing_path().display()
            );
            return Err(refused(reason, "check both, and remove one"));
        }
        if rebase::is_in_progress_in(&workspace.path)? {
            return Err(refused("a rebase is in progress", "finish or abort it first"));
        }
        require_branch(locked, &workspace.path)?;
        require_no_conflicts(&locked.git())?;
        // From here on, other processes do not find it.
        fs::rename(&workspace.path, workspace.removing_path()).map_err(file(&workspace.path))?;
    } else if workspace.path.exists() {
        let reason = format!("{} is not a worktree", workspace.path.display());
        return Err(refused(reason, "check its files"));
    }
    if workspace.removing_path().exists() {
        let rescued = rescue_changes(locked, ignored, uncommitted);
        if rescued.is_err() {
            fs::rename(workspace.removing_path(), &workspace.path)
                .map_err(file(&workspace.path))?;
        }
        rescued?;
        remove_directory(&workspace.removed_path())?;
        fs::rename(workspace.removing_path(), workspace.removed_path())
            .map_err(file(&workspace.path))?;
    }
    remove_directory(&workspace.removed_path())?;
    if locked.commit(&full_branch_name(workspace.branch))?.is_none() {
        let reason = format!("there is no branch {}", workspace.branch);
        return Err(refused(reason, "there is nothing to archive"));
    }
    unregister_worktree(locked)?;
    let commit = locked.commit(&workspace.rescue_ref())?;
    Ok(Archived { rescue_ref: commit.map(|_| workspace.rescue_ref()) })
}

/// Saves uncommitted changes under a reference.
fn rescue_changes(
    locked: &LockedWorkspace<'_>,
    ignored: IgnoredFiles,
    uncommitted: UncommittedChanges,
) -> Result<(), OperationError> {
    let workspace = &locked.workspace;
    let files = workspace.removing_path();
    // The files were moved, so git has to be told where they are.
    let git =
        Git::at(&files).with_env("GIT_DIR", git_dir(&files)?).with_env("GIT_WORK_TREE", &files);
    let Some(rescued) = rescue::create(&git, &files, ignored, true, locked.lock_input())? else {
        return Ok(());
    };
    if rescued.dirty && uncommitted == UncommittedChanges::Refuse {
        return Err(refused("it has uncommitted changes", "commit them, or archive it"));
    }
    let name = workspace.rescue_ref();
    if let Some(before) = locked.commit(&name)? {
        let older = format!("refs/bailiwick/rescued-before/{}/{before}", workspace.name);
        locked.run(["update-ref", &older, &before])?;
    }
    locked.run(["update-ref", &name, &rescued.commit])?;
    Ok(())
}

fn remove_directory(directory: &Path) -> Result<(), OperationError> {
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(file(directory))?;
    }
    Ok(())
}

/// A commit that no branch reaches would be lost with the worktree.
fn require_branch(locked: &LockedWorkspace<'_>, path: &Path) -> Result<(), OperationError> {
    let head = symbolic_ref(&Git::at(path), "HEAD")?;
    if head.as_deref() == Some(&full_branch_name(locked.workspace.branch)) {
        return Ok(());
    }
    let reason = format!("it is not on its branch {}", locked.workspace.branch);
    Err(refused(reason, "check out its branch first"))
}

fn require_no_conflicts(git: &Git) -> Result<(), OperationError> {
    if git.run(["ls-files", "--unmerged", "-z"])?.is_empty() {
        return Ok(());
    }
    Err(refused("it has unresolved conflicts", "resolve them first"))
}

pub(super) fn recover(locked: &LockedWorkspace<'_>) -> Result<RestoredFrom, OperationError> {
    let workspace = &locked.workspace;
    let _lock = locked.lock_all_worktrees()?;
    remove_incomplete_worktree(locked)?;
    let rescued = locked.commit(&workspace.rescue_ref())?;
    if workspace.path.join(".git").exists() {
        // The rescued changes still exist, so a recovery was interrupted.
        let Some(rescued) = rescued else {
            return Err(refused("its files already exist", "use it as it is"));
        };
        return restore_rescued(locked, &rescued);
    }
    if workspace.removing_path().exists() {
        // Git may have created an empty directory.
        if workspace.path.exists() {
            fs::remove_dir(&workspace.path).map_err(file(&workspace.path))?;
        }
        fs::rename(workspace.removing_path(), &workspace.path).map_err(file(&workspace.path))?;
        return Ok(RestoredFrom::Disk);
    }
    if fs::read_dir(&workspace.path).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty", workspace.path.display());
        return Err(refused(reason, "check its files, and move them away"));
    }
    let branch = locked.commit(&full_branch_name(workspace.branch))?;
    match (branch, &rescued) {
        (Some(_), _) => add(locked, &[], workspace.branch)?,
        (None, Some(rescued)) => add(locked, &["-b", workspace.branch], &format!("{rescued}^1"))?,
        (None, None) => {
            let reason = format!(
                "neither the branch {} nor {} exists",
                workspace.branch,
                workspace.rescue_ref()
            );
            return Err(refused(reason, "there is nothing to recover it from"));
        }
    }
    rescued.map_or(Ok(RestoredFrom::Branch), |rescued| restore_rescued(locked, &rescued))
}

fn restore_rescued(
    locked: &LockedWorkspace<'_>,
    rescued: &str,
) -> Result<RestoredFrom, OperationError> {
    let workspace = &locked.workspace;
    rescue::restore(&locked.git(), &workspace.path, rescued)?;
    locked.run(["update-ref", "-d", &workspace.rescue_ref(), rescued])?;
    Ok(RestoredFrom::BranchAndRescue)
}

fn utf8_path(path: &Path) -> Result<&str, OperationError> {
    path.to_str().ok_or_else(|| refused("its path is not UTF-8", "choose another"))
}
