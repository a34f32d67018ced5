//! All that an agent has made, as one commit: written by git into an index of our own, so that the
//! agent's index and files are only read.

use std::path::Path;

use bailiwick_control::ports::{Base, Snapshot, WorkError};

use super::ahead::{Ahead, Known};
use super::files::Files;
use super::places::Places;
use super::{filtered, plain, trouble};
use crate::git::command::Input;

/// The work as it is now; `ahead` if it was looked at before.
pub(super) fn take(
    places: &Places,
    state: &Path,
    agent: &str,
    base: &Base,
    ahead: Option<Ahead>,
) -> Result<Snapshot, WorkError> {
    let what = || format!("the work in {} cannot be recorded", places.worktree.display());
    let mut ahead = match ahead {
        Some(ahead) => ahead,
        None => Ahead::start(places, state, agent, base.tip.len() / 2)?,
    };
    let (head, merge_base, merge_base_tree) = history(places, base, ahead.head())?;
    let tree = match ahead.files()? {
        Files::Tree(tree) => tree,
        Files::Staged(staged) => staged.tree(places, agent, base)?,
    };
    let commit = if tree == head.tree {
        head.commit.clone()
    } else {
        // The same work gives the same commit, whenever and by whomever it is recorded.
        let date = format!("@{} +0000", head.date);
        let git = plain::signed(plain::git(state, places, &tree)?, plain::OURSELVES, Some(&date));
        let message = format!("Snapshot of {agent}");
        let line = git.line(["commit-tree", &tree, "-p", &head.commit, "-m", &message]);
        line.map_err(trouble(what()))?
    };
    let work = Snapshot { head: head.commit, commit, tree, merge_base, merge_base_tree };
    let index = std::fs::read(places.private.join("index")).unwrap_or_default();
    if work.tree != work.merge_base_tree && filtered::may_be_any(places, &index) {
        filtered::refuse_raw(places, state, &plain::git(state, places, &work.tree)?, &work)?;
    }
    Ok(work)
}

/// The commit that is checked out, and the one where it left the base.
fn history(
    places: &Places,
    base: &Base,
    head: Result<Known, WorkError>,
) -> Result<(Known, String, String), WorkError> {
    let head = head?;
    if head.commit == base.tip {
        let (commit, tree) = (head.commit.clone(), head.tree.clone());
        return Ok((head, commit, tree));
    }
    let git = places.agent_git();
    let what = format!("the work cannot be compared with {}", base.branch);
    let output = git
        .output(["merge-base", base.tip.as_str(), head.commit.as_str()], Input::Nothing)
        .map_err(trouble(what.clone()))?;
    let merge_base = match output.exit_code {
        Some(0) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Some(1) => {
            let why = format!("{} and {} have no commit in common", base.tip, head.commit);
            return Err(WorkError { what, why, of_tree: false });
        }
        Some(_) | None => return Err(trouble(what)(output.into_error())),
    };
    let tree = if merge_base == head.commit {
        head.tree.clone()
    } else if merge_base == base.tip {
        base.tree.clone()
    } else {
        git.line(["rev-parse", "--verify", &format!("{merge_base}^{{tree}}")])
            .map_err(trouble(what))?
    };
    Ok((head, merge_base, tree))
}
