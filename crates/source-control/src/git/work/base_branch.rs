//! Finding the branch that work is to land on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bailiwick_lifecycle::ports::{Base, WorkError};
use bailiwick_model::{CommitId, TreeId};
use serde::{Deserialize, Serialize};

use super::work_error;
use super::worktree_paths::WorktreePaths;
use crate::git::command::{Git, GitError};
use crate::git::refs::{full_branch_name, ref_exists, symbolic_ref};

const BASE_NOT_FOUND: &str = "the branch to land on cannot be found";
const HOW_TO_NAME_IT: &str = "give its name: --base NAME";

/// A branch and how it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseBranch {
    /// Its full name, for example `refs/heads/main`.
    pub branch: String,
    /// How it was found, in a few words.
    pub found: String,
}

/// What may name the base branch.
pub(super) struct BaseHints<'a> {
    /// The branch that a person named.
    pub(super) named: Option<&'a str>,
    /// The branch that was recorded when the agent was spawned.
    pub(super) recorded: Option<&'a str>,
    /// The agent's own branch.
    pub(super) own: String,
}

/// A commit in place of a branch.
pub(super) fn of_commit(paths: &WorktreePaths, commit: &str) -> Result<Base, WorkError> {
    let branch =
        BaseBranch { branch: commit.to_owned(), found: "the commit of the launch".to_owned() };
    read_tip(paths, branch)
}

/// Finds the base branch and reads its tip.
pub(super) fn observe(paths: &WorktreePaths, hints: &BaseHints<'_>) -> Result<Base, WorkError> {
    read_tip(paths, find(paths, hints)?)
}

fn read_tip(paths: &WorktreePaths, found: BaseBranch) -> Result<Base, WorkError> {
    let what = format!("the base branch {} cannot be read", found.branch);
    let (commit, tree) =
        (format!("{}^{{commit}}", found.branch), format!("{}^{{tree}}", found.branch));
    let arguments = ["rev-parse", "--end-of-options", &commit, &tree];
    let text = paths.git().line(arguments).map_err(|error| WorkError {
        what: what.clone(),
        why: format!("{error}; if the branch no longer exists, {HOW_TO_NAME_IT}"),
        caused_by_agent: false,
    })?;
    let lines: Vec<&str> = text.lines().filter(|line| *line != "--end-of-options").collect();
    let [tip, tree] = lines.as_slice() else {
        return Err(work_error(what)(format!("git rev-parse printed unexpected output: {text}")));
    };
    Ok(Base {
        branch: found.branch,
        tip: CommitId::new(*tip),
        tree: TreeId::new(*tree),
        found: found.found,
    })
}

/// The branch that a person named, else the recorded one, else a guess.
fn find(paths: &WorktreePaths, hints: &BaseHints<'_>) -> Result<BaseBranch, WorkError> {
    let git = paths.git();
    let own = agent_branches(paths, &hints.own).map_err(work_error(BASE_NOT_FOUND))?;
    let refuse =
        |why: String| WorkError { what: BASE_NOT_FOUND.to_owned(), why, caused_by_agent: false };
    if let Some(named) = hints.named {
        let branch = full_branch_name(named);
        if own.contains(&branch) {
            return Err(refuse(format!("{named} is the agent's own branch; name another one")));
        }
        if !ref_exists(&git, &branch).map_err(work_error(BASE_NOT_FOUND))? {
            return Err(refuse(format!("there is no branch {named} in this repository")));
        }
        return Ok(BaseBranch { branch, found: "given by --base".to_owned() });
    }
    if let Some(recorded) = hints.recorded {
        if own.iter().any(|own| own == recorded) {
            let why = format!("the agent's worktree itself has {recorded} checked out");
            return Err(refuse(format!("{why}; switch it back to its own branch")));
        }
        let found = "recorded when the agent was spawned".to_owned();
        return Ok(BaseBranch { branch: recorded.to_owned(), found });
    }
    let guessed = guess_base(&git, &own).map_err(work_error(BASE_NOT_FOUND))?;
    guessed.ok_or_else(|| refuse(format!("it cannot be determined; {HOW_TO_NAME_IT}")))
}

/// The default branch of a repository; `None` if there is none, or more than one candidate. Branches in `own`
/// are left out.
pub(super) fn guess_base(git: &Git, own: &[String]) -> Result<Option<BaseBranch>, GitError> {
    let is_candidate = |branch: &String| -> Result<bool, GitError> {
        Ok(!own.contains(branch) && ref_exists(git, branch)?)
    };
    let found =
        |branch: String, found: &str| Ok(Some(BaseBranch { branch, found: found.to_owned() }));
    if let Some(branch) = symbolic_ref(git, "HEAD")?
        && is_candidate(&branch)?
    {
        let bare = !git.directory().ends_with(".git");
        let how = if bare { "HEAD of the repository" } else { "checked out in the main checkout" };
        return found(branch, how);
    }
    if let Some(remote) = symbolic_ref(git, "refs/remotes/origin/HEAD")?
        && let Some(name) = remote.strip_prefix("refs/remotes/origin/")
    {
        let branch = full_branch_name(name);
        if is_candidate(&branch)? {
            return found(branch, "the default branch of origin");
        }
    }
    let configured = match git.line(["config", "--get", "init.defaultBranch"]) {
        Ok(name) => Some(name),
        Err(GitError::Failed { exit_code: Some(1), .. }) => None,
        Err(error) => return Err(error),
    };
    let usual = ["main", "master", "trunk"].into_iter().map(str::to_owned);
    let mut candidates = Vec::new();
    for name in configured.into_iter().chain(usual) {
        let branch = full_branch_name(&name);
        if !candidates.contains(&branch) && is_candidate(&branch)? {
            candidates.push(branch);
        }
    }
    match <[String; 1]>::try_from(candidates) {
        Ok([branch]) => found(branch, "the only branch with a usual name"),
        Err(_) => Ok(None),
    }
}

/// The local branch of a revision that a person named; `None` if it is not a branch.
pub(super) fn branch_of_revision(
    git: &Git,
    revision: &str,
) -> Result<Option<BaseBranch>, GitError> {
    let remotes = format!("refs/remotes/{revision}");
    let remote = ref_exists(git, &remotes)?.then(|| revision.split_once('/')).flatten();
    for name in [Some(revision), remote.map(|(_, name)| name)].into_iter().flatten() {
        let branch = full_branch_name(name);
        if ref_exists(git, &branch)? {
            return Ok(Some(BaseBranch { branch, found: format!("spawned on {revision}") }));
        }
    }
    Ok(None)
}

/// The branch that is checked out in the directory of `git`; nothing without one, or without a commit.
pub(super) fn checked_out_where_spawned(
    git: &Git,
    references: &BTreeMap<String, String>,
) -> Result<Option<BaseBranch>, GitError> {
    let Some(branch) = symbolic_ref(git, "HEAD")? else { return Ok(None) };
    let found = "checked out where the agent was spawned".to_owned();
    Ok(references.contains_key(&branch).then_some(BaseBranch { branch, found }))
}

/// Branches that cannot be the base: the agent's branch, and the one that its worktree has checked out.
pub(super) fn agent_branches(paths: &WorktreePaths, own: &str) -> Result<Vec<String>, GitError> {
    let mut branches = vec![full_branch_name(own)];
    branches.extend(head_branch(&paths.git_dir, &paths.worktree_git())?);
    Ok(branches)
}

/// The branch that HEAD names; `None` if it is detached.
pub(super) fn head_branch(git_dir: &Path, git: &Git) -> Result<Option<String>, GitError> {
    let text = fs::read_to_string(git_dir.join("HEAD")).unwrap_or_default();
    match text.trim_end().strip_prefix("ref: ") {
        // Git writes this name if references are not stored as files.
        None | Some("refs/heads/.invalid") => symbolic_ref(git, "HEAD"),
        Some(branch) => Ok(Some(branch.to_owned())),
    }
}
