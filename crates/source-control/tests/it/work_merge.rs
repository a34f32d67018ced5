//! The trial merge against `git merge` in a real clone: the same tree, or the same paths in conflict.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bailiwick_lifecycle::ports::{Merge, Work as _};
use bailiwick_model::TreeId;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, git_in, repository};
use crate::random_work::scribble;

/// The result of plain git in a clone: a tree, or the unmerged paths.
fn with_plain_git(
    scratch: &Scratch,
    clone: &Path,
    base: &str,
    work: &str,
) -> Result<String, BTreeSet<String>> {
    if !clone.exists() {
        let root = scratch.root();
        git_in(
            scratch,
            scratch.place(),
            &["clone", "--quiet", "--shared", root.to_str().unwrap(), clone.to_str().unwrap()],
        );
    }
    git_in(scratch, clone, &["checkout", "--quiet", "--force", "--detach", base]);
    let mut command = scratch.command("git");
    let merge = command
        .current_dir(clone)
        .args(["merge", "--quiet", "--no-commit", "--no-ff", work])
        .output()
        .unwrap();
    if merge.status.success() {
        return Ok(git_in(scratch, clone, &["write-tree"]).trim().to_owned());
    }
    let output = scratch
        .command("git")
        .current_dir(clone)
        .args(["diff", "--name-only", "-z", "--diff-filter=U"])
        .output();
    let printed = output.unwrap().stdout;
    let paths = printed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    // A file that is replaced by a directory is named after its side: git calls ours HEAD there.
    let named = |path: &[u8]| path.escape_ascii().to_string().replace("~HEAD", &format!("~{base}"));
    let paths = paths.map(named).collect();
    git_in(scratch, clone, &["reset", "--quiet", "--hard"]);
    Err(paths)
}

/// A path as we show it, in the spelling of `escape_ascii`, which git uses for bytes.
fn spelled(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut remaining = path;
    while let Some((before, after)) = remaining.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                remaining = after.get(2..).unwrap();
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                remaining = after;
            }
        }
    }
    bytes.extend_from_slice(remaining.as_bytes());
    bytes.escape_ascii().to_string()
}

#[test]
fn random_work_merges_as_git_merges_it() {
    let mut random = Random::rotating("merges");
    let (mut clean, mut conflicting, mut stale) = (0, 0, 0);
    for case in 0..Depth::from_env().cases(300) {
        let scratch = repository();
        for _ in 0..6 {
            scribble(&mut random, &scratch.root());
        }
        scratch.commit("more");
        let agent = Agent::spawn(&scratch, "ag-1");
        let clone = scratch.place().join("clone");
        for round in 0..3 {
            for _ in 0..=random.below(4) {
                scribble(&mut random, &agent.worktree);
            }
            if random.once_in(2) {
                agent.commit(&scratch, "work");
            }
            for _ in 0..random.below(4) {
                scribble(&mut random, &scratch.root());
                scratch.commit("meanwhile");
            }
            let (base, work) = agent.snapshot();
            stale += usize::from(base.tip != work.merge_base);
            let our_merge = agent.work().merge(&base, &work).unwrap();
            let git_merge = with_plain_git(&scratch, &clone, &base.tip, &work.commit);
            match (&our_merge, &git_merge) {
                (Merge::Clean { tree }, Ok(expected)) => {
                    clean += 1;
                    assert_eq!(tree, expected, "case {case}, round {round}");
                }
                (Merge::Conflicts(conflicts), Err(expected)) => {
                    conflicting += 1;
                    let paths: BTreeSet<String> =
                        conflicts.iter().map(|conflict| spelled(&conflict.path)).collect();
                    assert_eq!(&paths, expected, "case {case}, round {round}: {conflicts:?}");
                    assert!(conflicts.iter().all(|conflict| !conflict.why.is_empty()));
                }
                _ => panic!("case {case}, round {round}: {our_merge:?} but git: {git_merge:?}"),
            }
        }
    }
    assert!(clean > 0 && conflicting > 0 && stale > 0, "{clean} {conflicting} {stale}");
}

#[test]
fn conflict_has_the_message_of_git() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("README.md", "mine\n");
    fs::remove_file(agent.worktree.join("src/deep/er.rs")).unwrap();
    scratch.write("README.md", "theirs\n");
    scratch.write("src/deep/er.rs", "// deeper\n");
    scratch.commit("meanwhile");
    let (base, work) = agent.snapshot();
    let Merge::Conflicts(conflicts) = agent.work().merge(&base, &work).unwrap() else { panic!() };
    let shown_conflicts: Vec<(&str, &str)> =
        conflicts.iter().map(|conflict| (conflict.path.as_str(), conflict.why.as_str())).collect();
    let deleted = format!(
        "CONFLICT (modify/delete): src/deep/er.rs deleted in {} and modified in {}.  Version {} of \
         src/deep/er.rs left in tree.",
        work.commit, base.tip, base.tip
    );
    let content = "CONFLICT (content): Merge conflict in README.md";
    assert_eq!(shown_conflicts, [("README.md", content), ("src/deep/er.rs", &deleted)]);
}

/// Two branches that were merged into each other have two merge bases, and neither is an ancestor
/// of the other; git merges those two first.
#[test]
fn criss_cross_histories_merge_as_git_merges_them() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("README.md", "mine\nsecond\nthird\n");
    let mine = agent.commit(&scratch, "mine");
    scratch.write("README.md", "first\nsecond\ntheirs\n");
    let theirs = scratch.commit("theirs");
    agent.git(&scratch, &["merge", "--quiet", "-m", "cross", &theirs]);
    scratch.git(&["merge", "--quiet", "-m", "cross too", &mine]);
    agent.write("README.md", "mine\nchanged\ntheirs\n");
    agent.commit(&scratch, "more of mine");
    scratch.write("src/lib.rs", "fn theirs() {}\n");
    scratch.commit("more of theirs");
    let (base, work) = agent.snapshot();
    let bases = scratch.git(&["merge-base", "--all", &base.tip, &work.commit]);
    assert_eq!(bases.lines().count(), 2, "the control: the histories cross");
    assert!(bases.lines().any(|line| line == work.merge_base.as_str()));
    let clone = scratch.place().join("clone");
    let expected = with_plain_git(&scratch, &clone, &base.tip, &work.commit).unwrap();
    assert_eq!(
        agent.work().merge(&base, &work).unwrap(),
        Merge::Clean { tree: TreeId::new(expected) }
    );
}

/// A merge driver is a program that the repository's configuration names.
#[test]
fn no_merge_driver_runs_but_attributes_of_the_base_count() {
    let scratch = repository();
    scratch.write(".gitattributes", "*.md merge=evil\n*.union merge=union\n");
    scratch.write("list.union", "one\n");
    scratch.commit("attributes");
    let agent = Agent::spawn(&scratch, "ag-1");
    let marker = scratch.place().join("ran");
    scratch.git(&["config", "merge.evil.driver", &format!("touch '{}'; exit 0", marker.display())]);
    agent.write("README.md", "mine\nsecond\nthird\n");
    agent.write("list.union", "one\nmine\n");
    scratch.write("README.md", "first\nsecond\ntheirs\n");
    scratch.write("list.union", "one\ntheirs\n");
    scratch.commit("meanwhile");
    let (base, work) = agent.snapshot();
    let Merge::Clean { tree } = agent.work().merge(&base, &work).unwrap() else { panic!() };
    let show = |path: &str| scratch.git(&["show", &format!("{tree}:{path}")]);
    assert_eq!(show("README.md"), "mine\nsecond\ntheirs\n");
    assert_eq!(show("list.union"), "one\ntheirs\nmine\n");
    assert!(!marker.exists());
    scratch.git(&["merge", "--quiet", "--no-commit", &work.commit]);
    assert!(marker.exists(), "the control: plain git runs it");
}

#[test]
fn unrelated_histories_are_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.git(&scratch, &["checkout", "--quiet", "--orphan", "other"]);
    agent.commit(&scratch, "another beginning");
    let work = agent.work();
    let error = work.snapshot(&work.base().unwrap()).unwrap_err().to_string();
    assert!(error.contains("have no commit in common"), "{error}");
}
