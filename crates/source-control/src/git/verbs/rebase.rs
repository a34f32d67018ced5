//! Putting a branch on top of its target: real git, real conflicts.
//!
//! Nothing is guessed. What was settled before by a person is settled in the same way again, because
//! git has written it down (`rerere`); everything else waits for a person.

use std::fs;
use std::path::Path;

use super::places::{Held, private};
use super::{Git, Ignored, VerbError, Workspace, file, refused, rescue};
use crate::git::refs::{full_branch_name, symbolic_ref};

/// How a rebase stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebase {
    /// The branch is on top of its target, at this commit.
    Done {
        /// The commit.
        head: String,
    },
    /// Somebody has to settle these.
    Conflicts {
        /// The files.
        files: Vec<String>,
    },
}

/// Settings without which a person's own would have a say.
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

pub(super) fn is_under_way(workspace: &Workspace<'_>) -> Result<bool, VerbError> {
    if !workspace.path.join(".git").exists() {
        return Ok(false);
    }
    is_under_way_in(workspace.path)
}

pub(super) fn is_under_way_in(path: &Path) -> Result<bool, VerbError> {
    let private = private(path)?;
    Ok(["rebase-merge", "rebase-apply"].iter().any(|name| private.join(name).exists()))
}

/// Where the branch was before.
fn before(held: &Held<'_>) -> String {
    format!("refs/bailiwick/before-rebase/{}", held.place.name)
}

fn git(held: &Held<'_>) -> Git {
    let settings: Vec<(String, String)> =
        SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    rescue::signing(held.git())
        // What the commits say of their authors stays; nobody is asked for words.
        .with_env("GIT_EDITOR", "true")
        .with_env("GIT_SEQUENCE_EDITOR", "true")
        .with_settings(&settings)
}

pub(super) fn start(held: &Held<'_>) -> Result<Rebase, VerbError> {
    require_files(held)?;
    if is_under_way_in(&held.place.path)? {
        return Err(refused("a rebase is under way", "mark it resolved or abort it first"));
    }
    let git = git(held);
    let branch = full_branch_name(held.place.branch);
    if symbolic_ref(&git, "HEAD")?.as_deref() != Some(&branch) {
        let reason = format!("it is not on its branch {}", held.place.branch);
        return Err(refused(reason, "check the branch out there first"));
    }
    let tracked = ["status", "--porcelain", "-z", "--untracked-files=no"];
    if !git.run(tracked)?.is_empty() {
        return Err(refused("it has changes that are not committed", "commit them first"));
    }
    let target = format!("refs/heads/{}", held.place.target);
    let Some(onto) = held.commit(&target)? else {
        return Err(refused(format!("there is no branch {}", held.place.target), "name another"));
    };
    let head = git.line(["rev-parse", "--verify", "HEAD"])?;
    held.common().run_with_input(["update-ref", &before(held), &head], held.input())?;
    let output = git.output(["rebase", "--quiet", "--merge", &onto], held.input())?;
    if output.exit_code == Some(0) || is_under_way_in(&held.place.path)? {
        return outcome(held);
    }
    Err(output.into_error().into())
}

/// How the rebase stands now. One that stopped for another reason than conflicts is told apart.
fn outcome(held: &Held<'_>) -> Result<Rebase, VerbError> {
    if !is_under_way_in(&held.place.path)? {
        let head = held.git().line(["rev-parse", "--verify", "HEAD"])?;
        held.common().run_with_input(["update-ref", "-d", &before(held)], held.input())?;
        return Ok(Rebase::Done { head });
    }
    let files = unmerged(held)?;
    if files.is_empty() {
        return Err(refused("the rebase stopped without a conflict", "abort it"));
    }
    Ok(Rebase::Conflicts { files })
}

fn unmerged(held: &Held<'_>) -> Result<Vec<String>, VerbError> {
    let output = held.git().run(["diff", "--name-only", "--diff-filter=U", "-z"])?;
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

pub(super) fn auto_resolve(held: &Held<'_>) -> Result<Rebase, VerbError> {
    require_under_way(held)?;
    let git = git(held);
    git.run_with_input(["rerere"], held.input())?;
    let output = git.run(["rerere", "remaining"])?;
    let remaining = String::from_utf8_lossy(&output).into_owned();
    let remaining: Vec<&str> = remaining.lines().collect();
    let files = unmerged(held)?;
    for path in &files {
        // Only what git has settled from its own record, and nothing that still shows a conflict.
        if !remaining.contains(&path.as_str()) && !has_marks(&held.place.path.join(path))? {
            git.run_with_input(["add", "--", path], held.input())?;
        }
    }
    if unmerged(held)?.is_empty() { go_on(held) } else { outcome(held) }
}

pub(super) fn mark_resolved(held: &Held<'_>) -> Result<Rebase, VerbError> {
    require_under_way(held)?;
    let files = unmerged(held)?;
    for path in &files {
        let full = held.place.path.join(path);
        if full.exists() && has_marks(&full)? {
            let reason = format!("{path} still has marks of a conflict");
            return Err(refused(reason, "settle it, and take the marks out"));
        }
    }
    for path in &files {
        let removed = fs::symlink_metadata(held.place.path.join(path)).is_err();
        let arguments = if removed {
            vec!["rm", "--quiet", "--cached", "--ignore-unmatch", "--", path]
        } else {
            vec!["add", "--", path]
        };
        git(held).run_with_input(arguments, held.input())?;
    }
    go_on(held)
}

fn go_on(held: &Held<'_>) -> Result<Rebase, VerbError> {
    let output = git(held).output(["rebase", "--continue"], held.input())?;
    if output.exit_code == Some(0) || !unmerged(held)?.is_empty() {
        return outcome(held);
    }
    Err(output.into_error().into())
}

pub(super) fn abort(held: &Held<'_>) -> Result<Option<String>, VerbError> {
    require_under_way(held)?;
    let Some(former) = held.commit(&before(held))? else {
        let reason = "nobody wrote down where the branch was: this rebase was not begun here";
        return Err(refused(reason, "abort it with git"));
    };
    // What somebody has settled by hand would be gone.
    let taken = rescue::take(&held.git(), &held.place.path, Ignored::Discard, false, held.input())?;
    let kept = match taken {
        Some(rescued) => {
            let name = format!("refs/bailiwick/aborted/{}", held.place.name);
            held.common().run_with_input(["update-ref", &name, &rescued.commit], held.input())?;
            Some(name)
        }
        None => None,
    };
    let output = git(held).output(["rebase", "--abort"], held.input())?;
    if output.exit_code != Some(0) {
        put_back(held, &former)?;
    }
    let head = held.git().line(["rev-parse", "--verify", "HEAD"])?;
    if head != former {
        let reason = format!("git went back to {head}, not to {former}");
        return Err(refused(reason, "look at the workspace"));
    }
    held.common().run_with_input(["update-ref", "-d", &before(held)], held.input())?;
    Ok(kept)
}

/// Goes back without git's own record, which a kill may have cut short.
fn put_back(held: &Held<'_>, former: &str) -> Result<(), VerbError> {
    let private = held.private()?;
    let git = git(held);
    let branch = format!("refs/heads/{}", held.place.branch);
    git.run_with_input(["update-ref", &branch, former], held.input())?;
    git.run_with_input(["symbolic-ref", "HEAD", &branch], held.input())?;
    git.run_with_input(["reset", "--quiet", "--hard", former], held.input())?;
    for name in ["rebase-merge", "rebase-apply"] {
        let place = private.join(name);
        if place.exists() {
            fs::remove_dir_all(&place).map_err(file(&place))?;
        }
    }
    Ok(())
}

fn require_files(held: &Held<'_>) -> Result<(), VerbError> {
    if held.place.path.join(".git").exists() {
        return Ok(());
    }
    Err(refused("its files are not there", "recover it first"))
}

fn require_under_way(held: &Held<'_>) -> Result<(), VerbError> {
    require_files(held)?;
    if is_under_way_in(&held.place.path)? {
        return Ok(());
    }
    Err(refused("no rebase is under way", "start one first"))
}

/// Whether a file has lines that git puts around a conflict.
fn has_marks(path: &Path) -> Result<bool, VerbError> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Ok(false);
    }
    let bytes = fs::read(path).map_err(file(path))?;
    let begins = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    Ok(bytes.split(|byte| *byte == b'\n').any(begins))
}
