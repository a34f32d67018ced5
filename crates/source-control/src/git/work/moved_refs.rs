//! References that moved since the spawn to commits that can only be the agent's.
//!
//! Plumbing commands leave no entry in the log of HEAD. So a new commit is attributed to the agent,
//! unless it came from a remote, the log of HEAD of another checkout has it, a landing created it, or it is a change
//! of an issue or of the claims, which has no files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::repository_state::list_commits;
use super::spawn_record::{MAX_LOG_BYTES, SpawnRecord};
use super::worktree_paths::WorktreePaths;
use super::{checkouts, landing_journal, regular_file};
use crate::git::command::{Git, GitError};
use crate::git::retained_commits::RETAINED_REFS;
use crate::git::{fetch, memory_refs};

const STASH: &str = "refs/stash";

/// The agent and its state at the spawn.
pub(super) struct AgentContext<'a> {
    pub(super) paths: &'a WorktreePaths,
    pub(super) state: &'a Path,
    pub(super) agent: &'a str,
    pub(super) branch: String,
    pub(super) record: &'a SpawnRecord,
}

/// The references that the agent must have moved.
pub(super) fn observe(
    context: &AgentContext<'_>,
    git: &Git,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, GitError> {
    let at_spawn = &context.record.references;
    let moved: Vec<(&str, &str)> = now
        .iter()
        .filter(|(name, object)| at_spawn.get(*name) != Some(object))
        .map(|(name, object)| (name.as_str(), object.as_str()))
        .filter(|(name, _)| *name != STASH && !is_remote_ref(name) && !context.is_kept_work(name))
        .filter(|(name, object)| !is_fetched_for_a_run(git, name, object))
        .collect();
    let mut found = Vec::new();
    if !moved.is_empty() {
        let others = OthersCommits::observe(context, now);
        let mut known: Vec<&str> = at_spawn.values().map(String::as_str).collect();
        known.push(&context.record.commit);
        known.extend(others.reached.iter().map(String::as_str));
        let has_unexplained_commit = |tips: &[&str]| -> Result<bool, GitError> {
            let commits = list_commits(git, tips.iter().copied(), &known)?;
            Ok(commits.iter().any(|commit| !others.created.contains(commit)))
        };
        let tips: Vec<&str> = moved.iter().map(|(_, object)| *object).collect();
        if has_unexplained_commit(&tips)? {
            for (name, object) in moved {
                if has_unexplained_commit(&[object])? && !is_memory(git, name, object, at_spawn)? {
                    found.push(name.to_owned());
                }
            }
        }
    }
    if let Some(tip) = now.get(STASH).filter(|tip| at_spawn.get(STASH) != Some(tip))
        && !is_stashed_elsewhere(context, tip)
    {
        found.push(STASH.to_owned());
    }
    Ok(found)
}

/// Whether a reference moved by changes of an issue or of the claims alone. Those of an agent would not be signed.
fn is_memory(
    git: &Git,
    name: &str,
    object: &str,
    at_spawn: &BTreeMap<String, String>,
) -> Result<bool, GitError> {
    let known: Vec<&str> = at_spawn.values().map(String::as_str).collect();
    let commits = list_commits(git, [object], &known)?;
    memory_refs::has_only_memory(git, name, &commits)
}

fn is_remote_ref(name: &str) -> bool {
    name.starts_with("refs/remotes/") || name.starts_with("refs/prefetch/")
}

/// Whether the control plane fetched a commit for a run: the reference has the name of the commit, and holds a tag
/// of it. While it is being fetched, the reference is a temporary one.
fn is_fetched_for_a_run(git: &Git, name: &str, object: &str) -> bool {
    let name = name.strip_prefix(RETAINED_REFS).and_then(|rest| rest.strip_prefix('/'));
    let Some(name) = name else {
        return false;
    };
    if !is_commit_name(name) {
        return fetch::is_temporary(name);
    }
    let tagged = git.run(["rev-parse", "--verify", "--quiet", &format!("{object}^{{commit}}")]);
    tagged.is_ok_and(|tagged| String::from_utf8_lossy(&tagged).trim() == name)
}

/// The file in a run's directory that marks work that was rejected and kept.
pub const REJECTED_MARKER: &str = "rejected";

impl AgentContext<'_> {
    /// Whether a reference keeps the work of another agent whose worktree is gone, or the rejected work of
    /// this agent.
    fn is_kept_work(&self, name: &str) -> bool {
        let other = |agent: &str| {
            let run = self.state.join("runs").join(agent);
            let is_name = !agent.contains('/') && agent != self.agent;
            (is_name && run.join("spawned.json").is_file()).then(|| agent.to_owned())
        };
        if let Some(agent) = name.strip_prefix("refs/bailiwick/kept/") {
            let rejected = self.state.join("runs").join(self.agent).join(REJECTED_MARKER);
            return other(agent).is_some() || agent == self.agent && rejected.is_file();
        }
        let gone = |agent: String| !self.paths.common_dir.join("worktrees").join(agent).exists();
        let agent = name.strip_prefix("refs/heads/agent/").and_then(other);
        agent.is_some_and(gone)
    }
}

/// Commits that are not the agent's.
#[derive(Default)]
struct OthersCommits {
    /// Created in another checkout. Their parents may be the agent's.
    created: BTreeSet<String>,
    /// Merged, pulled or fetched by others, with all commits that they reach.
    reached: BTreeSet<String>,
}

impl OthersCommits {
    fn observe(context: &AgentContext<'_>, now: &BTreeMap<String, String>) -> Self {
        let mut all =
            Self { created: landing_journal::landed(context.state), reached: BTreeSet::new() };
        let remote = now.iter().filter(|(name, _)| is_remote_ref(name));
        all.reached.extend(remote.map(|(_, object)| object.clone()));
        for git_dir in checkouts::git_directories(&context.paths.common_dir) {
            // A symbolic link may point to the agent's own directory.
            let is_other = std::fs::canonicalize(&git_dir)
                .is_ok_and(|path| path == git_dir && path != context.paths.git_dir);
            if !is_other {
                continue;
            }
            let text = |name: &str| {
                regular_file::read(&git_dir.join(name), MAX_LOG_BYTES).unwrap_or_default()
            };
            all.add_log(&String::from_utf8_lossy(&text("logs/HEAD")));
            let fetched = text("FETCH_HEAD");
            let fetched = String::from_utf8_lossy(&fetched);
            let names = fetched.lines().filter_map(|line| line.split('\t').next());
            all.reached.extend(names.filter(|name| is_commit_name(name)).map(str::to_owned));
        }
        all
    }

    /// `<old> <new> <who> <when>\t<what was done>: …`
    fn add_log(&mut self, log: &str) {
        for line in log.lines() {
            let (head, message) = line.split_once('\t').unwrap_or((line, ""));
            let Some(commit) = head.split(' ').nth(1).filter(|name| is_commit_name(name)) else {
                continue;
            };
            let what = message.split(':').next().unwrap_or_default();
            let command = what.split([' ', '(']).next().unwrap_or_default();
            let is_single_commit = ["commit", "cherry-pick", "revert", "am"].contains(&command);
            // A commit does not make the other commits of its branch somebody else's; a merge does.
            let set = if is_single_commit && what != "commit (merge)" {
                &mut self.created
            } else {
                &mut self.reached
            };
            set.insert(commit.to_owned());
        }
    }
}

fn is_commit_name(name: &str) -> bool {
    let zero = name.bytes().all(|byte| byte == b'0');
    matches!(name.len(), 40 | 64) && !zero && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the log of stashes says of every new stash that it was created on another branch.
fn is_stashed_elsewhere(context: &AgentContext<'_>, tip: &str) -> bool {
    let path = context.paths.common_dir.join("logs").join(STASH);
    let log = regular_file::read(&path, MAX_LOG_BYTES).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let stashes: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(head, message)| Some((head.split(' ').nth(1)?, message)))
        .collect();
    if stashes.last().map(|(commit, _)| *commit) != Some(tip) {
        return false;
    }
    let before = context.record.references.get(STASH);
    let old = stashes.iter().position(|(commit, _)| Some(*commit) == before.map(String::as_str));
    let new = stashes.iter().skip(old.map_or(0, |old| old.saturating_add(1)));
    let elsewhere = |message: &str| {
        let named = message.strip_prefix("WIP on ").or_else(|| message.strip_prefix("On "));
        let Some((branch, _)) = named.and_then(|named| named.split_once(':')) else { return false };
        // Older versions of git write only the last part of a branch's name.
        branch != context.branch && branch != context.agent && branch != "(no branch)"
    };
    let mut messages = new.map(|(_, message)| *message);
    messages.all(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::OthersCommits;

    #[test]
    fn commit_claims_one_commit_and_merge_claims_all_reachable_ones() {
        let names: Vec<String> = (1..=6).map(|digit| digit.to_string().repeat(40)).collect();
        let what = [
            "commit: one",
            "commit (merge): two",
            "pull: Fast-forward",
            "cherry-pick: four",
            "merge x: Merge made by the 'ort' strategy.",
            "commit (amend): six: (merge)",
        ];
        let lines = names.iter().zip(what);
        let log: String =
            lines.map(|(name, what)| format!("0 {name} A <a@b> 1 +0000\t{what}\n")).collect();
        let mut others_commits = OthersCommits::default();
        others_commits.add_log(&log);
        others_commits.add_log("broken\n0 short A\tcommit: x\n");
        let first = |set: &std::collections::BTreeSet<String>| {
            set.iter().map(|name| name.chars().take(1).collect()).collect::<Vec<String>>()
        };
        assert_eq!(
            (first(&others_commits.created), first(&others_commits.reached)),
            (vec!["1".into(), "4".into(), "6".into()], vec!["2".into(), "3".into(), "5".into()])
        );
    }
}
