//! Comparing a repository with its state at the spawn.
//!
//! People may use the repository meanwhile. So a reference counts only if it moved and now reaches a
//! commit that was made in the agent's worktree, or one that can only be the agent's. Replacements
//! (`refs/replace/`) always count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bailiwick_lifecycle::ports::{Base, Snapshot};
use bailiwick_verify::facts::{Baseline, RepositoryFacts, ValueChange};

use super::moved_refs::{self, AgentContext};
use super::spawn_record::{self, SpawnRecord};
use super::worktree_paths::WorktreePaths;
use super::{base_branch, regular_file};
use crate::git::command::{Git, GitError, Input};
use crate::git::refs::full_branch_name;

pub(super) fn observe(
    paths: &WorktreePaths,
    context: Option<&AgentContext<'_>>,
    base: &Base,
    work: &Snapshot,
) -> Result<RepositoryFacts, GitError> {
    let record = context.map(|context| context.record);
    let git = paths.worktree_git();
    let now = spawn_record::references(&paths.git())?;
    let head = base_branch::head_branch(&paths.git_dir, &git)?;
    let commits = commits(&git, &paths.git_dir, record, base, work, &now)?;
    let mut references = reaching(&git, record, base, &now, &commits)?;
    if let Some(context) = context {
        references.extend(moved_refs::observe(context, &git, &now)?);
    }
    if let Some(record) = record {
        // A replacement shows everybody another history, no matter who created it.
        let moved = differing(&record.references, &now);
        references.extend(moved.into_iter().filter(|name| name.starts_with("refs/replace/")));
    }
    references.sort_unstable();
    references.dedup();
    if record.is_some_and(|record| !spawn_record::has_intact_log(record, &paths.git_dir)) {
        references.push("the log of HEAD in the worktree was removed or rewritten".to_owned());
    }
    let (mut configuration, mut hooks) = (None, None);
    if let Some(record) = record {
        let at_spawn = without_changed_branches(&record.configuration, &record.references, &now);
        let settings = spawn_record::configuration(paths)?;
        configuration =
            Some(at_spawn != without_changed_branches(&settings, &record.references, &now));
        hooks = Some(differing(&record.hooks, &spawn_record::hooks(paths)?));
    }
    let started = record.map_or(work.merge_base.as_str(), |record| record.commit.as_str());
    Ok(RepositoryFacts {
        baseline: if record.is_some() { Baseline::Spawn } else { Baseline::MergeBase },
        head: ValueChange {
            before: record.map(|record| {
                record.head.clone().unwrap_or_else(|| format!("detached at {}", record.commit))
            }),
            now: Some(head.unwrap_or_else(|| format!("detached at {}", work.head))),
        },
        commit: ValueChange { before: Some(started.to_owned()), now: Some(work.head.to_string()) },
        configuration,
        hooks,
        references,
        commits,
    })
}

/// Commits made in the worktree: those that its log of HEAD says were made there, and those that only
/// HEAD reaches.
fn commits(
    git: &Git,
    git_dir: &Path,
    record: Option<&SpawnRecord>,
    base: &Base,
    work: &Snapshot,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, GitError> {
    let log = regular_file::read(&git_dir.join("logs/HEAD"), spawn_record::MAX_LOG_BYTES)
        .unwrap_or_default();
    let logged = made_commits(&log);
    let mut known: Vec<&str> = match record {
        Some(record) => record.references.values().map(String::as_str).collect(),
        None => vec![work.merge_base.as_str()],
    };
    known.extend(record.map(|record| record.commit.as_str()));
    let tips = logged.iter().map(String::as_str).chain([work.head.as_str()]);
    let since: BTreeSet<String> = list_commits(git, tips, &known)?.into_iter().collect();
    let elsewhere = now.iter().filter(|(name, _)| name.starts_with("refs/remotes/"));
    known.extend(elsewhere.map(|(_, object)| object.as_str()));
    known.push(&base.tip);
    let mut commits = list_commits(git, [work.head.as_str()], &known)?;
    let others = logged.into_iter().filter(|commit| since.contains(commit));
    for commit in others {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    Ok(commits)
}

/// Commits that `tips` reach and `known` do not; missing objects are skipped.
pub(super) fn list_commits<'a>(
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
    let stdout = git.run_with_input(arguments, Input::Bytes(input.as_bytes()))?;
    Ok(String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect())
}

/// Commands in the log of HEAD that create commits.
const COMMITTING_COMMANDS: [&str; 7] =
    ["commit", "merge", "rebase", "cherry-pick", "revert", "am", "pull"];

/// The commits that a log of HEAD says were made: `<old> <new> <who> <when>\t<command> …`.
fn made_commits(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log);
    let entry = |line: &str| {
        let (head, message) = line.split_once('\t')?;
        let (what, how) = message.split_once(':').unwrap_or((message, ""));
        let command = what.split([' ', '(']).next()?;
        let moved = how.trim() == "Fast-forward"
            || ["(start)", "(finish)", "(abort)"].iter().any(|part| what.contains(part));
        let commit = head.split(' ').nth(1)?;
        (COMMITTING_COMMANDS.contains(&command) && !moved).then(|| commit.to_owned())
    };
    let mut made: Vec<String> = text.lines().filter_map(entry).collect();
    made.sort_unstable();
    made.dedup();
    made
}

/// References that moved or are new, and reach one of these commits.
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
    let stdout = git.run(format.into_iter().chain(contains))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let moved = |name: &&str| match record {
        Some(record) => record.references.get(*name) != now.get(*name),
        // Without a record, the base counts as unmoved.
        None => *name != base.branch,
    };
    Ok(text.lines().filter(moved).map(str::to_owned).collect())
}

/// All settings except those of branches that are new or deleted: git writes them with the branch.
fn without_changed_branches<'a>(
    settings: &'a BTreeMap<String, String>,
    at_spawn: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a str> {
    let counts = |name: &str| {
        let Some(rest) = name.strip_prefix("branch.") else { return true };
        let Some((branch, _)) = rest.rsplit_once('.') else { return true };
        let branch = full_branch_name(branch);
        at_spawn.contains_key(&branch) && now.contains_key(&branch)
    };
    let settings = settings.iter().filter(|(name, _)| counts(name));
    settings.map(|(name, digest)| (name.as_str(), digest.as_str())).collect()
}

fn differing(at_spawn: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = at_spawn.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| at_spawn.get(*name) != now.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::made_commits;

    #[test]
    fn only_commands_that_create_commits_count() {
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
        assert_eq!(made_commits(log), ["a1", "a3", "a5", "a7"]);
    }
}
