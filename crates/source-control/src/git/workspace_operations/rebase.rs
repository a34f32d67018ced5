//! Rebasing a branch onto its target.
//!
//! Conflicts are never guessed. One that a person has resolved before is resolved in the same way, by
//! git's own record (`rerere`); all others wait for a person.

use std::fs;
use std::path::Path;

use super::locked_workspace::{LockedWorkspace, git_dir};
use super::{Git, IgnoredFiles, OperationError, Workspace, file, refused, rescue};
use crate::git::identity::{BAILIWICK, with_identity};
use crate::git::refs::{full_branch_name, symbolic_ref};

/// The state of a rebase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebaseOutcome {
    /// The branch is rebased.
    Done {
        /// Its new commit.
        head: String,
    },
    /// A person has to resolve conflicts.
    Conflicts {
        /// The files with conflicts.
        files: Vec<String>,
    },
}

/// Overrides of the person's settings.
const SETTINGS: [(&str, &str); 8] = [
    ("rerere.enabled", "true"),
    ("rerere.autoUpdate", "false"),
    ("rebase.autoStash", "false"),
    ("rebase.autoSquash", "false"),
    ("rebase.updateRefs", "false"),
    ("commit.gpgSign", "false"),
    ("merge.conflictStyle", "merge"),
    ("advice.mergeConflict", "false"),
];

pub(super) fn is_in_progress(workspace: &Workspace<'_>) -> Result<bool, OperationError> {
    if !workspace.path.join(".git").exists() {
        return Ok(false);
    }
    is_in_progress_in(workspace.path)
}

pub(super) fn is_in_progress_in(path: &Path) -> Result<bool, OperationError> {
    let git_dir = git_dir(path)?;
    Ok(["rebase-merge", "rebase-apply"].iter().any(|name| git_dir.join(name).exists()))
}

/// The reference with the commit of the branch before the rebase.
fn original_head_ref(locked: &LockedWorkspace<'_>) -> String {
    format!("refs/bailiwick/before-rebase/{}", locked.workspace.name)
}

fn git(locked: &LockedWorkspace<'_>) -> Git {
    with_identity(locked.git(), BAILIWICK, None)
        // Messages of commits stay as they are.
        .with_env("GIT_EDITOR", "true")
        .with_env("GIT_SEQUENCE_EDITOR", "true")
        .with_settings(SETTINGS)
}

pub(super) fn start(locked: &LockedWorkspace<'_>) -> Result<RebaseOutcome, OperationError> {
    require_files(locked)?;
    if is_in_progress_in(&locked.workspace.path)? {
        return Err(refused("a rebase is in progress", "mark it resolved or abort it first"));
    }
    let git = git(locked);
    let branch = full_branch_name(locked.workspace.branch);
    if symbolic_ref(&git, "HEAD")?.as_deref() != Some(&branch) {
        let reason = format!("it is not on its branch {}", locked.workspace.branch);
        return Err(refused(reason, "check out its branch first"));
    }
    let tracked = ["status", "--porcelain", "-z", "--untracked-files=no"];
    if !git.run(tracked)?.is_empty() {
        return Err(refused("it has uncommitted changes", "commit them first"));
    }
    let onto = match locked.workspace.target {
        Some(target) => locked.commit(target)?,
        None => None,
    };
    let Some(onto) = onto else {
        return Err(refused("its target branch does not exist on the forge", "create it there"));
    };
    let head = git.line(["rev-parse", "--verify", "HEAD"])?;
    locked.run(["update-ref", &original_head_ref(locked), &head])?;
    let output = git.output(["rebase", "--quiet", "--merge", &onto], locked.lock_input())?;
    if output.exit_code == Some(0) || is_in_progress_in(&locked.workspace.path)? {
        return outcome(locked);
    }
    Err(output.into_error().into())
}

/// The state of the rebase now; an error if it stopped without a conflict.
fn outcome(locked: &LockedWorkspace<'_>) -> Result<RebaseOutcome, OperationError> {
    if !is_in_progress_in(&locked.workspace.path)? {
        let head = locked.git().line(["rev-parse", "--verify", "HEAD"])?;
        locked.run(["update-ref", "-d", &original_head_ref(locked)])?;
        return Ok(RebaseOutcome::Done { head });
    }
    let files = unmerged(locked)?;
    if files.is_empty() {
        return Err(refused("the rebase stopped without a conflict", "abort it"));
    }
    Ok(RebaseOutcome::Conflicts { files })
}

fn unmerged(locked: &LockedWorkspace<'_>) -> Result<Vec<String>, OperationError> {
    let output = locked.git().run(["diff", "--name-only", "--diff-filter=U", "-z"])?;
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

pub(super) fn auto_resolve(locked: &LockedWorkspace<'_>) -> Result<RebaseOutcome, OperationError> {
    require_in_progress(locked)?;
    let git = git(locked);
    git.run_with_input(["rerere"], locked.lock_input())?;
    let output = git.run(["rerere", "remaining"])?;
    let remaining = String::from_utf8_lossy(&output).into_owned();
    let remaining: Vec<&str> = remaining.lines().collect();
    let files = unmerged(locked)?;
    for path in &files {
        // Only files that git has resolved by its record, and that have no conflict markers.
        if !remaining.contains(&path.as_str())
            && !has_conflict_markers(&locked.workspace.path.join(path))?
        {
            git.run_with_input(["add", "--", path], locked.lock_input())?;
        }
    }
    if unmerged(locked)?.is_empty() { continue_rebase(locked) } else { outcome(locked) }
}

pub(super) fn mark_resolved(locked: &LockedWorkspace<'_>) -> Result<RebaseOutcome, OperationError> {
    require_in_progress(locked)?;
    let files = unmerged(locked)?;
    for path in &files {
        let full = locked.workspace.path.join(path);
        if full.exists() && has_conflict_markers(&full)? {
            let reason = format!("{path} still has conflict markers");
            return Err(refused(reason, "resolve the conflict, and remove the markers"));
        }
    }
    for path in &files {
        let removed = fs::symlink_metadata(locked.workspace.path.join(path)).is_err();
        let arguments = if removed {
            vec!["rm", "--quiet", "--cached", "--ignore-unmatch", "--", path]
        } else {
            vec!["add", "--", path]
        };
        git(locked).run_with_input(arguments, locked.lock_input())?;
    }
    continue_rebase(locked)
}

fn continue_rebase(locked: &LockedWorkspace<'_>) -> Result<RebaseOutcome, OperationError> {
    let output = git(locked).output(["rebase", "--continue"], locked.lock_input())?;
    if output.exit_code == Some(0) || !unmerged(locked)?.is_empty() {
        return outcome(locked);
    }
    Err(output.into_error().into())
}

pub(super) fn abort(locked: &LockedWorkspace<'_>) -> Result<Option<String>, OperationError> {
    require_in_progress(locked)?;
    let Some(original) = locked.commit(&original_head_ref(locked))? else {
        let reason = "the original commit is not known: this rebase was not started here";
        return Err(refused(reason, "abort it with git"));
    };
    // Conflicts that were resolved by hand would be lost.
    let rescued_changes = rescue::create(
        &locked.git(),
        &locked.workspace.path,
        IgnoredFiles::Discard,
        false,
        locked.lock_input(),
    )?;
    let kept_ref = match rescued_changes {
        Some(rescued) => {
            let name = format!("refs/bailiwick/aborted/{}", locked.workspace.name);
            locked.run(["update-ref", &name, &rescued.commit])?;
            Some(name)
        }
        None => None,
    };
    let output = git(locked).output(["rebase", "--abort"], locked.lock_input())?;
    if output.exit_code != Some(0) {
        reset_to(locked, &original)?;
    }
    let head = locked.git().line(["rev-parse", "--verify", "HEAD"])?;
    if head != original {
        let reason = format!("git reset the branch to {head}, not to {original}");
        return Err(refused(reason, "check the workspace"));
    }
    locked.run(["update-ref", "-d", &original_head_ref(locked)])?;
    Ok(kept_ref)
}

/// Undoes the rebase without git's own record, which may be incomplete after a kill.
fn reset_to(locked: &LockedWorkspace<'_>, original: &str) -> Result<(), OperationError> {
    let git_dir = locked.git_dir()?;
    let git = git(locked);
    let branch = full_branch_name(locked.workspace.branch);
    git.run_with_input(["update-ref", &branch, original], locked.lock_input())?;
    git.run_with_input(["symbolic-ref", "HEAD", &branch], locked.lock_input())?;
    git.run_with_input(["reset", "--quiet", "--hard", original], locked.lock_input())?;
    for name in ["rebase-merge", "rebase-apply"] {
        let directory = git_dir.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(file(&directory))?;
        }
    }
    Ok(())
}

fn require_files(locked: &LockedWorkspace<'_>) -> Result<(), OperationError> {
    if locked.workspace.path.join(".git").exists() {
        return Ok(());
    }
    Err(refused("its files are missing", "recover it first"))
}

fn require_in_progress(locked: &LockedWorkspace<'_>) -> Result<(), OperationError> {
    require_files(locked)?;
    if is_in_progress_in(&locked.workspace.path)? {
        return Ok(());
    }
    Err(refused("no rebase is in progress", "start one first"))
}

/// Whether a file has the lines by which git marks a conflict.
fn has_conflict_markers(path: &Path) -> Result<bool, OperationError> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Ok(false);
    }
    let bytes = fs::read(path).map_err(file(path))?;
    let is_marker = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    Ok(bytes.split(|byte| *byte == b'\n').any(is_marker))
}
