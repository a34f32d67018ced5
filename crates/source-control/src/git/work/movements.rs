//! References that moved since the spawn to commits that nobody else answers for.
//!
//! Plumbing leaves no trace in the log of HEAD where it is used. So new commits count against the
//! agent, unless they came from a remote, were made or met in another checkout, by whose log of
//! HEAD one can tell, or were landed by us.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::places::Places;
use super::repository_state::listed;
use super::spawn_record::{LOG, SpawnRecord};
use super::{checkouts, journal, plain_file};
use crate::git::command::{Git, GitError};

const STASH: &str = "refs/stash";

/// What the agent is looked at by.
pub(super) struct Subject<'a> {
    pub(super) places: &'a Places,
    pub(super) state: &'a Path,
    pub(super) agent: &'a str,
    pub(super) branch: String,
    pub(super) record: &'a SpawnRecord,
}

/// The references that count against the agent.
pub(super) fn observe(
    subject: &Subject<'_>,
    git: &Git,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, GitError> {
    let then = &subject.record.references;
    let moved: Vec<(&str, &str)> = now
        .iter()
        .filter(|(name, object)| then.get(*name) != Some(object))
        .map(|(name, object)| (name.as_str(), object.as_str()))
        .filter(|(name, _)| *name != STASH && !is_from_a_remote(name) && !subject.is_kept(name))
        .collect();
    let mut found = Vec::new();
    if !moved.is_empty() {
        let elsewhere = Elsewhere::observe(subject, now);
        let mut known: Vec<&str> = then.values().map(String::as_str).collect();
        known.push(&subject.record.commit);
        known.extend(elsewhere.met.iter().map(String::as_str));
        let strange = |tips: &[&str]| -> Result<bool, GitError> {
            let commits = listed(git, tips.iter().copied(), &known)?;
            Ok(commits.iter().any(|commit| !elsewhere.made.contains(commit)))
        };
        let tips: Vec<&str> = moved.iter().map(|(_, object)| *object).collect();
        if strange(&tips)? {
            for (name, object) in moved {
                if strange(&[object])? {
                    found.push(name.to_owned());
                }
            }
        }
    }
    if let Some(tip) = now.get(STASH).filter(|tip| then.get(STASH) != Some(tip))
        && !is_stashed_elsewhere(subject, tip)
    {
        found.push(STASH.to_owned());
    }
    Ok(found)
}

fn is_from_a_remote(name: &str) -> bool {
    name.starts_with("refs/remotes/") || name.starts_with("refs/prefetch/")
}

/// The file in a run's directory that says that its work was rejected and kept.
pub const REJECTED: &str = "rejected";

impl Subject<'_> {
    /// Whether a reference is what we keep of an agent: of another whose worktree can tell no more, or of
    /// this one since it was rejected.
    fn is_kept(&self, name: &str) -> bool {
        let other = |agent: &str| {
            let run = self.state.join("runs").join(agent);
            let is_name = !agent.contains('/') && agent != self.agent;
            (is_name && run.join("spawned.json").is_file()).then(|| agent.to_owned())
        };
        if let Some(agent) = name.strip_prefix("refs/bailiwick/kept/") {
            let rejected = self.state.join("runs").join(self.agent).join(REJECTED);
            return other(agent).is_some() || agent == self.agent && rejected.is_file();
        }
        let gone = |agent: String| !self.places.common.join("worktrees").join(agent).exists();
        let agent = name.strip_prefix("refs/heads/agent/").and_then(other);
        agent.is_some_and(gone)
    }
}

/// Commits that others answer for.
#[derive(Default)]
struct Elsewhere {
    /// These alone: they were made elsewhere, on whatever was there.
    made: BTreeSet<String>,
    /// These and all that they reach.
    met: BTreeSet<String>,
}

impl Elsewhere {
    fn observe(subject: &Subject<'_>, now: &BTreeMap<String, String>) -> Self {
        let mut all = Self { made: journal::landed(subject.state), met: BTreeSet::new() };
        let remote = now.iter().filter(|(name, _)| is_from_a_remote(name));
        all.met.extend(remote.map(|(_, object)| object.clone()));
        for private in checkouts::private_directories(&subject.places.common) {
            // A link may lead to the agent's own.
            let is_other = std::fs::canonicalize(&private)
                .is_ok_and(|place| place == private && place != subject.places.private);
            if !is_other {
                continue;
            }
            let text = |name: &str| plain_file::read(&private.join(name), LOG).unwrap_or_default();
            all.take_log(&String::from_utf8_lossy(&text("logs/HEAD")));
            let fetched = text("FETCH_HEAD");
            let fetched = String::from_utf8_lossy(&fetched);
            let names = fetched.lines().filter_map(|line| line.split('\t').next());
            all.met.extend(names.filter(|name| is_object(name)).map(str::to_owned));
        }
        all
    }

    /// `<old> <new> <who> <when>\t<what was done>: …`
    fn take_log(&mut self, log: &str) {
        for line in log.lines() {
            let (head, message) = line.split_once('\t').unwrap_or((line, ""));
            let Some(commit) = head.split(' ').nth(1).filter(|name| is_object(name)) else {
                continue;
            };
            let what = message.split(':').next().unwrap_or_default();
            let verb = what.split([' ', '(']).next().unwrap_or_default();
            let alone = ["commit", "cherry-pick", "revert", "am"].contains(&verb);
            // Somebody who commits on a branch does not answer for what else is on it.
            let set =
                if alone && what != "commit (merge)" { &mut self.made } else { &mut self.met };
            set.insert(commit.to_owned());
        }
    }
}

fn is_object(name: &str) -> bool {
    let zero = name.bytes().all(|byte| byte == b'0');
    matches!(name.len(), 40 | 64) && !zero && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the log of stashes tells of every new one that it was made on another branch.
fn is_stashed_elsewhere(subject: &Subject<'_>, tip: &str) -> bool {
    let place = subject.places.common.join("logs").join(STASH);
    let log = plain_file::read(&place, LOG).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let stashes: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(head, message)| Some((head.split(' ').nth(1)?, message)))
        .collect();
    if stashes.last().map(|(commit, _)| *commit) != Some(tip) {
        return false;
    }
    let before = subject.record.references.get(STASH);
    let old = stashes.iter().position(|(commit, _)| Some(*commit) == before.map(String::as_str));
    let new = stashes.iter().skip(old.map_or(0, |old| old.saturating_add(1)));
    let elsewhere = |message: &str| {
        let named = message.strip_prefix("WIP on ").or_else(|| message.strip_prefix("On "));
        let Some((branch, _)) = named.and_then(|named| named.split_once(':')) else { return false };
        // Older versions of git tell only the last part of a branch's name.
        branch != subject.branch && branch != subject.agent && branch != "(no branch)"
    };
    let mut messages = new.map(|(_, message)| *message);
    messages.all(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::Elsewhere;

    #[test]
    fn who_commits_answers_for_that_commit_and_who_merges_for_all_of_it() {
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
        let mut all = Elsewhere::default();
        all.take_log(&log);
        all.take_log("broken\n0 short A\tcommit: x\n");
        let first = |set: &std::collections::BTreeSet<String>| {
            set.iter().map(|name| name.chars().take(1).collect()).collect::<Vec<String>>()
        };
        assert_eq!(
            (first(&all.made), first(&all.met)),
            (vec!["1".into(), "4".into(), "6".into()], vec!["2".into(), "3".into(), "5".into()])
        );
    }
}
