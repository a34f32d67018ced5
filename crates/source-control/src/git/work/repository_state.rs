//! How a repository stands against how it stood at the spawn.
//!
//! What the person does meanwhile is not the agent's doing: a reference counts only if it moved and
//! now reaches a commit that was made in the worktree, or one that nobody else answers for.
//! Replacements count in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bailiwick_control::ports::{Base, Snapshot};
use bailiwick_verify::facts::{Moved, RepositoryFacts, Since};

use super::movements::{self, Subject};
use super::places::Places;
use super::spawn_record::{self, SpawnRecord};
use super::{base, plain_file};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::full_branch_name;

/// The comparison.
pub(super) fn observe(
    places: &Places,
    subject: Option<&Subject<'_>>,
    base: &Base,
    work: &Snapshot,
) -> Result<RepositoryFacts, GitError> {
    let record = subject.map(|subject| subject.record);
    let git = places.agent_git();
    let now = spawn_record::references(&places.git())?;
    let head = base::checked_out(&places.private, &git)?;
    let commits = commits(&git, &places.private, record, base, work, &now)?;
    let mut references = reaching(&git, record, base, &now, &commits)?;
    if let Some(subject) = subject {
        references.extend(movements::observe(subject, &git, &now)?);
    }
    if let Some(record) = record {
        // A replacement gives others another history than the one they ask for, whoever made it.
        let moved = differing(&record.references, &now);
        references.extend(moved.into_iter().filter(|name| name.starts_with("refs/replace/")));
    }
    references.sort_unstable();
    references.dedup();
    if record.is_some_and(|record| !spawn_record::has_log(record, &places.private)) {
        references.push("the log of HEAD in the worktree was removed or rewritten".to_owned());
    }
    let (mut configuration, mut hooks) = (None, None);
    if let Some(record) = record {
        let then = filtered(&record.configuration, &record.references, &now);
        let settings = spawn_record::configuration(places)?;
        configuration = Some(then != filtered(&settings, &record.references, &now));
        hooks = Some(differing(&record.hooks, &spawn_record::hooks(places)?));
    }
    let started = record.map_or(&work.merge_base, |record| &record.commit);
    Ok(RepositoryFacts {
        since: if record.is_some() { Since::Spawn } else { Since::MergeBase },
        head: Moved {
            before: record.map(|record| {
                record.head.clone().unwrap_or_else(|| format!("detached at {}", record.commit))
            }),
            now: Some(head.unwrap_or_else(|| format!("detached at {}", work.head))),
        },
        commit: Moved { before: Some(started.clone()), now: Some(work.head.clone()) },
        configuration,
        hooks,
        references,
        commits,
    })
}

/// Commits made in the worktree: those that its own log of HEAD says were made there, and those
/// that HEAD has and nobody else had or has.
fn commits(
    git: &Git,
    private: &Path,
    record: Option<&SpawnRecord>,
    base: &Base,
    work: &Snapshot,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, GitError> {
    let log = plain_file::read(&private.join("logs/HEAD"), spawn_record::LOG).unwrap_or_default();
    let logged = made(&log);
    let mut known: Vec<&str> = match record {
        Some(record) => record.references.values().map(String::as_str).collect(),
        None => vec![work.merge_base.as_str()],
    };
    known.extend(record.map(|record| record.commit.as_str()));
    let tips = logged.iter().map(String::as_str).chain([work.head.as_str()]);
    let since: BTreeSet<String> = listed(git, tips, &known)?.into_iter().collect();
    let elsewhere = now.iter().filter(|(name, _)| name.starts_with("refs/remotes/"));
    known.extend(elsewhere.map(|(_, object)| object.as_str()));
    known.push(&base.tip);
    let mut commits = listed(git, [work.head.as_str()], &known)?;
    let others = logged.into_iter().filter(|commit| since.contains(commit));
    for commit in others {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    Ok(commits)
}

/// Commits that `tips` reach and `known` do not; names that are gone are passed by.
pub(super) fn listed<'a>(
    git: &Git,
    tips: impl IntoIterator<Item = &'a str>,
    known: &[&str],
) -> Result<Vec<String>, GitError> {
    let mut input = String::new();
    for tip in tips {
        input.push_str(tip);
        input.push('\n');
    }
    for known in known {
        input.push_str(&format!("^{known}\n"));
    }
    let arguments = ["rev-list", "--ignore-missing", "--stdin"];
    let printed = git.run_with_input(arguments, Input::Bytes(input.as_bytes()))?;
    Ok(String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect())
}

/// Verbs by which git notes that it made a commit.
const MAKERS: [&str; 7] = ["commit", "merge", "rebase", "cherry-pick", "revert", "am", "pull"];

/// What the log of HEAD says was made there: `<old> <new> <who> <when>\t<verb> …`.
fn made(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log);
    let entry = |line: &str| {
        let (head, message) = line.split_once('\t')?;
        let (what, how) = message.split_once(':').unwrap_or((message, ""));
        let verb = what.split([' ', '(']).next()?;
        let moved = how.trim() == "Fast-forward"
            || ["(start)", "(finish)", "(abort)"].iter().any(|part| what.contains(part));
        let commit = head.split(' ').nth(1)?;
        (MAKERS.contains(&verb) && !moved).then(|| commit.to_owned())
    };
    let mut made: Vec<String> = text.lines().filter_map(entry).collect();
    made.sort_unstable();
    made.dedup();
    made
}

/// References that moved or appeared, and reach one of these commits.
fn reaching(
    git: &Git,
    record: Option<&SpawnRecord>,
    base: &Base,
    now: &BTreeMap<String, String>,
    commits: &[String],
) -> Result<Vec<String>, GitError> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let contains = commits.iter().map(|commit| format!("--contains={commit}"));
    let format = ["for-each-ref".to_owned(), "--format=%(refname)".to_owned()];
    let printed = git.run(format.into_iter().chain(contains))?;
    let text = String::from_utf8_lossy(&printed).into_owned();
    let moved = |name: &&str| match record {
        Some(record) => record.references.get(*name) != now.get(*name),
        // Without a record, what the base has is taken for what it had.
        None => *name != base.branch,
    };
    Ok(text.lines().filter(moved).map(str::to_owned).collect())
}

/// Settings but those of branches that came or went: git writes them when a branch is made.
fn filtered<'a>(
    settings: &'a BTreeMap<String, String>,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a str> {
    let counts = |name: &str| {
        let Some(rest) = name.strip_prefix("branch.") else { return true };
        let Some((branch, _)) = rest.rsplit_once('.') else { return true };
        let branch = full_branch_name(branch);
        then.contains_key(&branch) && now.contains_key(&branch)
    };
    let settings = settings.iter().filter(|(name, _)| counts(name));
    settings.map(|(name, digest)| (name.as_str(), digest.as_str())).collect()
}

fn differing(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| then.get(*name) != now.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::made;

    #[test]
    fn only_what_was_made_counts() {
        let log = b"0 a1 A <a@b> 1 +0000\tcommit (initial): x\n\
            0 a2 A <a@b> 1 +0000\tcheckout: moving from x to y\n\
            0 a3 A <a@b> 1 +0000\tcommit (amend): \xff\n\
            0 a4 A <a@b> 1 +0000\tmerge x: Fast-forward\n\
            0 a5 A <a@b> 1 +0000\tmerge x: Merge made by the 'ort' strategy.\n\
            0 a6 A <a@b> 1 +0000\trebase (start): checkout main\n\
            0 a7 A <a@b> 1 +0000\trebase (pick): y\n\
            0 a8 A <a@b> 1 +0000\tpull: Fast-forward\n\
            0 a9 A <a@b> 1 +0000\treset: moving to HEAD~1\n\
            broken line\n";
        assert_eq!(made(log), ["a1", "a3", "a5", "a7"]);
    }
}
