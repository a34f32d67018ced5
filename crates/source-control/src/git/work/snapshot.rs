//! All work of an agent as one commit. Git writes to an index of our own, so that the agent's index and
//! files are only read.

use std::path::Path;

use bailiwick_lifecycle::ports::{Base, Snapshot, WorkError};
use bailiwick_model::{CommitId, TreeId};

use super::pending_snapshot::{HeadCommit, PendingSnapshot};
use super::worktree_files::RecordedFiles;
use super::worktree_paths::WorktreePaths;
use super::{filtered_files, object_view, work_error};
use crate::git::command::Input;
use crate::git::identity::{BAILIWICK, with_identity};

/// Takes a snapshot of the work as it is now, or completes a pending one.
pub(super) fn take(
    paths: &WorktreePaths,
    state: &Path,
    agent: &str,
    base: &Base,
    pending: Option<PendingSnapshot>,
) -> Result<Snapshot, WorkError> {
    let what = || format!("the work in {} cannot be recorded", paths.worktree.display());
    let mut pending = match pending {
        Some(pending) => pending,
        None => PendingSnapshot::start(paths, state, agent, base.tip.len() / 2)?,
    };
    let (head, merge_base, merge_base_tree) = history(paths, base, pending.head())?;
    let tree = match pending.files()? {
        RecordedFiles::Tree(tree) => tree,
        RecordedFiles::Staged(staged) => staged.tree(paths, agent, base)?,
    };
    let commit = if tree == head.tree {
        head.commit.clone()
    } else {
        // With a fixed identity and date, the same work always gives the same commit.
        let date = format!("@{} +0000", head.date);
        let git = with_identity(object_view::git(state, paths, &tree)?, BAILIWICK, Some(&date));
        let message = format!("Snapshot of {agent}");
        let line = git.line(["commit-tree", &tree, "-p", &head.commit, "-m", &message]);
        line.map(CommitId::new).map_err(work_error(what()))?
    };
    let work = Snapshot { head: head.commit, commit, tree, merge_base, merge_base_tree };
    let index = std::fs::read(paths.git_dir.join("index")).unwrap_or_default();
    if work.tree != work.merge_base_tree && filtered_files::may_exist(paths, &index) {
        filtered_files::require_stored_form(
            paths,
            state,
            &object_view::git(state, paths, &work.tree)?,
            &work,
        )?;
    }
    Ok(work)
}

/// HEAD, and the merge base with its tree.
fn history(
    paths: &WorktreePaths,
    base: &Base,
    head: Result<HeadCommit, WorkError>,
) -> Result<(HeadCommit, CommitId, TreeId), WorkError> {
    let head = head?;
    if head.commit == base.tip {
        let (commit, tree) = (head.commit.clone(), head.tree.clone());
        return Ok((head, commit, tree));
    }
    let git = paths.worktree_git();
    let what = format!("the work cannot be compared with {}", base.branch);
    let output = git
        .output(["merge-base", base.tip.as_str(), head.commit.as_str()], Input::Nothing)
        .map_err(work_error(what.clone()))?;
    let merge_base = match output.exit_code {
        Some(0) => CommitId::new(String::from_utf8_lossy(&output.stdout).trim()),
        Some(1) => {
            let why = format!("{} and {} have no commit in common", base.tip, head.commit);
            return Err(WorkError { what, why, caused_by_agent: false });
        }
        Some(_) | None => return Err(work_error(what)(output.into_error())),
    };
    let tree = if merge_base == head.commit {
        head.tree.clone()
    } else if merge_base == base.tip {
        base.tree.clone()
    } else {
        git.line(["rev-parse", "--verify", &format!("{merge_base}^{{tree}}")])
            .map(TreeId::new)
            .map_err(work_error(what))?
    };
    Ok((head, merge_base, tree))
}
