//! Keeps the repositories of a worker small: each attempt adds a pack, and references to its commits.

use std::collections::BTreeSet;
use std::path::Path;

use bailiwick_source_control::git::{Git, Input};

use super::attempts::{Attempts, blocking};
use super::repository::{FETCHED, WorkerRepository};
use crate::failure::Failure;

/// The number of packs that a repository may have before they become one.
const MAX_PACKS: usize = 20;
/// How many of the newest commits stay although no attempt uses them, so that they are not sent again.
const MAX_UNUSED: usize = 32;
/// How old an object without a reference is when it is deleted. Git may just have found one instead of writing it.
const UNREFERENCED_VALID: &str = "1.day.ago";

impl Attempts {
    /// Packs a repository again if it has many packs. What is needed stays. A failure delays no attempt.
    pub(super) async fn tidy(&self, repository: &WorkerRepository) {
        let directory = repository.directory().to_owned();
        let changing = self.adding.lock().await;
        let alone = self.unreferenced.try_write();
        let used = match &alone {
            Ok(_) => self.commits_in_use(&directory),
            Err(_) => None,
        };
        let tidied = blocking(move || tidy(&directory, used.as_ref())).await;
        drop(alone);
        drop(changing);
        if let Err(failure) = tidied {
            let why = failure.in_one_line();
            self.context.notices.note(format_args!("a repository cannot be packed: {why}"));
        }
    }

    /// The commits of the attempts of a repository; nothing if not all are known.
    fn commits_in_use(&self, repository: &Path) -> Option<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for kept in self.kept().ok()?.into_iter().filter(|kept| kept.repository == repository) {
            if kept.commits.is_empty() {
                return None;
            }
            all.extend(kept.commits);
        }
        Some(all)
    }
}

/// Makes one pack of many. Old commits that are not in use are dropped, unless what is in use is not known.
fn tidy(directory: &Path, used: Option<&BTreeSet<String>>) -> Result<(), Failure> {
    if packs(directory)? <= MAX_PACKS {
        return Ok(());
    }
    let git = Git::at(directory);
    let Some(used) = used else {
        git.run(["repack", "-a", "-d", "--keep-unreachable", "--quiet"])?;
        return Ok(());
    };
    drop_references(&git, used)?;
    if directory.join(".git/logs/HEAD").exists() {
        git.run(["reflog", "expire", "--expire=now", "HEAD"])?;
    }
    let unpack = format!("--unpack-unreachable={UNREFERENCED_VALID}");
    git.run(["repack", "-A", "-d", &unpack, "--quiet"])?;
    git.run(["prune", &format!("--expire={UNREFERENCED_VALID}")])?;
    Ok(())
}

fn packs(directory: &Path) -> Result<usize, Failure> {
    let place = directory.join(".git/objects/pack");
    let listed = std::fs::read_dir(&place).map_err(|error| {
        Failure::general(format!("{} cannot be read: {error}", place.display()))
    })?;
    let is_pack = |entry: &std::fs::DirEntry| {
        entry.path().extension().is_some_and(|extension| extension == "pack")
    };
    Ok(listed.flatten().filter(is_pack).count())
}

fn drop_references(git: &Git, used: &BTreeSet<String>) -> Result<(), Failure> {
    let format = "--format=%(objectname) %(refname)";
    let listed = git.run(["for-each-ref", "--sort=-committerdate", format, FETCHED])?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let all = listed.lines().filter_map(|line| line.split_once(' '));
    let unused = all.skip(MAX_UNUSED).filter(|(commit, _)| !used.contains(*commit));
    let deletions: String = unused.map(|(_, name)| format!("delete {name}\n")).collect();
    git.run_with_input(["update-ref", "--stdin"], Input::Bytes(deletions.as_bytes()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    /// A repository of a worker with a pack and a reference for each of 40 unrelated commits, the
    /// oldest first; and a commit in a pack without a reference.
    fn used_repository() -> (Scratch, Vec<String>, String) {
        let scratch = Scratch::repository();
        let tree = scratch.git(&["write-tree"]).trim().to_owned();
        let commit_with_pack = |number: usize| {
            let mut command = scratch.command("git");
            command.args(["commit-tree", "-m", &number.to_string(), &tree]);
            command.env("GIT_COMMITTER_DATE", format!("@{} +0000", 1_700_000_000 + number * 60));
            let output = command.output().unwrap();
            let commit = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            scratch.git(&["update-ref", &format!("{FETCHED}/{commit}"), &commit]);
            scratch.git(&["repack", "-d", "--quiet"]);
            commit
        };
        let commits = (0..40).map(commit_with_pack).collect();
        let unreferenced = commit_with_pack(100);
        scratch.git(&["update-ref", "-d", &format!("{FETCHED}/{unreferenced}")]);
        assert_eq!(packs(&scratch.root()).unwrap(), 41, "the control");
        (scratch, commits, unreferenced)
    }

    #[test]
    fn old_commits_that_no_attempt_uses_are_dropped() {
        let (scratch, commits, unreferenced) = used_repository();
        let git = Git::at(scratch.root());
        let used = BTreeSet::from([commits[0].clone()]);
        let old = ["-type", "f", "-exec", "touch", "-d", "3 days ago", "{}", "+"];
        scratch.command("find").arg(".git/objects").args(old).status().unwrap();
        tidy(&scratch.root(), Some(&used)).unwrap();
        assert_eq!(packs(&scratch.root()).unwrap(), 1);
        let has = |commit: &String| git.succeeds(["cat-file", "-e", commit]).unwrap();
        assert!(has(&commits[0]), "an attempt uses it");
        assert!(!commits[1..8].iter().any(has), "old commits are dropped");
        assert!(commits[8..].iter().all(has), "new commits stay");
        assert!(!has(&unreferenced));
    }

    #[test]
    fn objects_that_may_be_in_use_without_a_reference_stay() {
        let (scratch, commits, unreferenced) = used_repository();
        let git = Git::at(scratch.root());
        tidy(&scratch.root(), Some(&BTreeSet::new())).unwrap();
        assert_eq!(packs(&scratch.root()).unwrap(), 1);
        assert!(git.succeeds(["cat-file", "-e", &unreferenced]).unwrap());
        let reference = format!("{FETCHED}/{}", commits[0]);
        assert!(
            !git.succeeds(["show-ref", "--verify", &reference]).unwrap(),
            "the reference of an old commit is deleted"
        );
    }

    #[test]
    fn nothing_is_dropped_if_the_used_commits_are_unknown() {
        let (scratch, commits, unreferenced) = used_repository();
        let git = Git::at(scratch.root());
        tidy(&scratch.root(), None).unwrap();
        assert_eq!(packs(&scratch.root()).unwrap(), 1);
        let has = |commit: &String| git.succeeds(["cat-file", "-e", commit]).unwrap();
        assert!(commits.iter().all(has) && has(&unreferenced));
    }

    #[test]
    fn repository_with_few_packs_is_not_changed() {
        let scratch = Scratch::repository();
        scratch.git(&["repack", "-d", "--quiet"]);
        let before = packs(&scratch.root()).unwrap();
        tidy(&scratch.root(), Some(&BTreeSet::new())).unwrap();
        assert_eq!(packs(&scratch.root()).unwrap(), before);
    }
}
