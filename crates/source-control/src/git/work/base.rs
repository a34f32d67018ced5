//! The branch that work is to land on: found, never assumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bailiwick_control::ports::{Base, WorkError};
use serde::{Deserialize, Serialize};

use super::places::Places;
use super::trouble;
use crate::git::command::{Git, GitError};
use crate::git::refs::{full_branch_name, ref_exists, symbolic_ref};

const WHAT: &str = "the branch that the work is to land on cannot be found";
const ADVICE: &str = "give its name: --base NAME";

/// A branch and how it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseBranch {
    /// Its full name, for example `refs/heads/main`.
    pub branch: String,
    /// How it was found, in a few words.
    pub found: String,
}

/// What is known of the base beforehand.
pub(super) struct Wanted<'a> {
    /// What a person has said.
    pub(super) given: Option<&'a str>,
    /// What was found when the agent was spawned.
    pub(super) recorded: Option<&'a str>,
    /// The agent's own branch.
    pub(super) own: String,
}

/// The base as it is now.
pub(super) fn observe(places: &Places, wanted: &Wanted<'_>) -> Result<Base, WorkError> {
    let found = find(places, wanted)?;
    let what = format!("the base branch {} cannot be read", found.branch);
    let (commit, tree) =
        (format!("{}^{{commit}}", found.branch), format!("{}^{{tree}}", found.branch));
    let arguments = ["rev-parse", "--end-of-options", &commit, &tree];
    let said = places.git().line(arguments).map_err(|error| WorkError {
        what: what.clone(),
        why: format!("{error}; if there is no such branch any more, {ADVICE}"),
        of_tree: false,
    })?;
    let lines: Vec<&str> = said.lines().filter(|line| *line != "--end-of-options").collect();
    let [tip, tree] = lines.as_slice() else {
        return Err(trouble(what)(format!("git rev-parse answered in an unknown way: {said}")));
    };
    Ok(Base {
        branch: found.branch,
        tip: (*tip).to_owned(),
        tree: (*tree).to_owned(),
        found: found.found,
    })
}

/// The branch, in the order of who must know best.
fn find(places: &Places, wanted: &Wanted<'_>) -> Result<BaseBranch, WorkError> {
    let git = places.git();
    let own = own_branches(places, &wanted.own).map_err(trouble(WHAT))?;
    let refuse = |why: String| WorkError { what: WHAT.to_owned(), why, of_tree: false };
    if let Some(given) = wanted.given {
        let branch = full_branch_name(given);
        if own.contains(&branch) {
            return Err(refuse(format!("{given} is the agent's own branch; name another one")));
        }
        if !ref_exists(&git, &branch).map_err(trouble(WHAT))? {
            return Err(refuse(format!("there is no branch {given} in this repository")));
        }
        return Ok(BaseBranch { branch, found: "given by --base".to_owned() });
    }
    if let Some(recorded) = wanted.recorded {
        if own.iter().any(|own| own == recorded) {
            let why = format!("the agent's worktree itself has {recorded} checked out");
            return Err(refuse(format!("{why}; switch it back to its own branch")));
        }
        let found = "recorded when the agent was spawned".to_owned();
        return Ok(BaseBranch { branch: recorded.to_owned(), found });
    }
    let guessed = guess(&git, &own).map_err(trouble(WHAT))?;
    guessed.ok_or_else(|| refuse(format!("nothing tells which branch it is; {ADVICE}")))
}

/// The branch that a repository itself points at; nothing if it points at none, or at several.
/// `own` are branches that cannot be it.
pub(super) fn guess(git: &Git, own: &[String]) -> Result<Option<BaseBranch>, GitError> {
    let fits = |branch: &String| -> Result<bool, GitError> {
        Ok(!own.contains(branch) && ref_exists(git, branch)?)
    };
    let found =
        |branch: String, found: &str| Ok(Some(BaseBranch { branch, found: found.to_owned() }));
    if let Some(branch) = symbolic_ref(git, "HEAD")?
        && fits(&branch)?
    {
        let bare = !git.directory().ends_with(".git");
        let place =
            if bare { "HEAD of the repository" } else { "checked out in the main checkout" };
        return found(branch, place);
    }
    if let Some(remote) = symbolic_ref(git, "refs/remotes/origin/HEAD")?
        && let Some(name) = remote.strip_prefix("refs/remotes/origin/")
    {
        let branch = full_branch_name(name);
        if fits(&branch)? {
            return found(branch, "the default branch of origin");
        }
    }
    let configured = match git.line(["config", "--get", "init.defaultBranch"]) {
        Ok(name) => Some(name),
        Err(GitError::Failed { exit_code: Some(1), .. }) => None,
        Err(error) => return Err(error),
    };
    let usual = ["main", "master", "trunk"].into_iter().map(str::to_owned);
    let mut there = Vec::new();
    for name in configured.into_iter().chain(usual) {
        let branch = full_branch_name(&name);
        if !there.contains(&branch) && fits(&branch)? {
            there.push(branch);
        }
    }
    match <[String; 1]>::try_from(there) {
        Ok([branch]) => found(branch, "the only branch with a usual name"),
        Err(_) => Ok(None),
    }
}

/// The local branch that a person means by a revision; nothing if it names no branch.
pub(super) fn meant_by(git: &Git, revision: &str) -> Result<Option<BaseBranch>, GitError> {
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

/// The branch that is checked out where git is called; nothing if none is, or if it has no commit.
pub(super) fn where_called(
    git: &Git,
    references: &BTreeMap<String, String>,
) -> Result<Option<BaseBranch>, GitError> {
    let Some(branch) = symbolic_ref(git, "HEAD")? else { return Ok(None) };
    let found = "checked out where the agent was spawned".to_owned();
    Ok(references.contains_key(&branch).then_some(BaseBranch { branch, found }))
}

/// Branches that cannot be the base: the agent's, and the one that its worktree is on.
pub(super) fn own_branches(places: &Places, own: &str) -> Result<Vec<String>, GitError> {
    let mut branches = vec![full_branch_name(own)];
    branches.extend(checked_out(&places.private, &places.agent_git())?);
    Ok(branches)
}

/// The branch that HEAD names; nothing if it is detached.
pub(super) fn checked_out(private: &Path, git: &Git) -> Result<Option<String>, GitError> {
    let text = fs::read_to_string(private.join("HEAD")).unwrap_or_default();
    match text.trim_end().strip_prefix("ref: ") {
        // References may be kept in another way than as files; git leaves this note then.
        None | Some("refs/heads/.invalid") => symbolic_ref(git, "HEAD"),
        Some(branch) => Ok(Some(branch.to_owned())),
    }
}
