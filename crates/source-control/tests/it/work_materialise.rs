//! A tree as files, in its own repository.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_model::TreeId;
use bailiwick_source_control::GitWork;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, git_in, repository};
use crate::random_work::scribble;
use crate::workspaces::{id, snapshot};

fn materialised(scratch: &Scratch, agent: &Agent, name: &str) -> PathBuf {
    let (base, work) = agent.snapshot();
    let place = scratch.place().join(name);
    agent.work().materialise(&work.tree, &[&base.tip, &work.commit], &place).unwrap();
    place
}

fn modes(root: &Path) -> Vec<(PathBuf, u32)> {
    let files = crate::random_work::files_of(root).into_iter().filter(|path| !path.is_symlink());
    files
        .map(|path| {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o111;
            (path.strip_prefix(root).unwrap().to_owned(), mode)
        })
        .collect()
}

#[test]
fn random_trees_are_written_like_a_fresh_clone() {
    let mut random = Random::rotating("materialised trees");
    for case in 0..Depth::from_env().cases(60) {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        for _ in 0..12 {
            scribble(&mut random, &agent.worktree);
        }
        let written = materialised(&scratch, &agent, "ours");
        let (_, work) = agent.snapshot();
        let clone = scratch.place().join("clone");
        let (from, to) = (scratch.root(), clone.clone());
        scratch.git(&[
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            from.to_str().unwrap(),
            to.to_str().unwrap(),
        ]);
        git_in(&scratch, &clone, &["checkout", "--quiet", "--detach", &work.commit]);
        assert_eq!(snapshot(&written), snapshot(&clone), "case {case}");
        assert_eq!(modes(&written), modes(&clone), "case {case}");
        let status = ["status", "--porcelain", "--ignored", "--untracked-files=all"];
        assert_eq!(git_in(&scratch, &written, &status), "", "case {case}");
        assert_eq!(git_in(&scratch, &written, &["fsck", "--no-dangling", "--no-progress"]), "");
    }
}

#[test]
fn git_works_in_the_written_tree_and_does_not_see_the_main_repository() {
    let scratch = repository();
    scratch.git(&["tag", "light"]);
    scratch.git(&["tag", "-a", "v1.0", "-m", "one"]);
    scratch.git(&["config", "core.autocrlf", "true"]);
    scratch.git(&["config", "alias.evil", "!false"]);
    scratch.git(&["remote", "add", "origin", "https://example.org/secret.git"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("new.txt", "new\n");
    let before = snapshot(&scratch.root().join(".git/worktrees"));
    let references = scratch.git(&["for-each-ref"]);
    let place = materialised(&scratch, &agent, "ours");
    let git = |arguments: &[&str]| git_in(&scratch, &place, arguments);
    assert_eq!(git(&["describe"]).split('-').next(), Some("v1.0"));
    assert_eq!(git(&["tag"]), "light\nv1.0\n");
    assert_eq!(git(&["cat-file", "-t", "v1.0"]), "tag\n");
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert_eq!(
        git(&["log", "--format=%s", "--first-parent"]),
        "The tree that is verified\nfirst\n"
    );
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), "3\n");
    assert_eq!(git(&["for-each-ref", "refs/heads", "refs/remotes"]), "");
    assert_eq!(git(&["remote"]), "");
    assert_eq!(git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD\n", "no branch is checked out");
    let config = fs::read_to_string(place.join(".git/config")).unwrap();
    assert!(!config.contains("autocrlf") && !config.contains("secret"), "{config}");
    assert_eq!(fs::read_to_string(place.join("README.md")).unwrap(), "first\nsecond\nthird\n");
    // Changes in it do not reach the main repository.
    fs::write(place.join("README.md"), "changed\n").unwrap();
    git(&["commit", "--quiet", "--all", "-m", "inside"]);
    git(&["branch", "inside"]);
    assert_eq!(scratch.git(&["for-each-ref"]), references);
    assert_eq!(snapshot(&scratch.root().join(".git/worktrees")), before);
}

#[test]
fn same_tree_always_has_the_same_commit() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("new.txt", "new\n");
    let head = |name: &str| {
        fs::read_to_string(materialised(&scratch, &agent, name).join(".git/HEAD")).unwrap()
    };
    assert_eq!(head("one"), head("two"));
}

#[test]
fn directory_that_is_not_empty_is_refused_and_unchanged() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let (base, work) = agent.snapshot();
    let place = scratch.place().join("full");
    fs::create_dir(&place).unwrap();
    let put = || agent.work().materialise(&work.tree, &[&base.tip], &place);
    put().unwrap();
    let error = put().unwrap_err().to_string();
    assert!(error.contains("it is not empty"), "{error}");
    let missing = scratch.place().join("gone");
    assert!(agent.work().materialise(&TreeId::new("0".repeat(40)), &[], &missing).is_err());
}

#[test]
fn sha256_repository_is_supported() {
    let scratch = Scratch::bare();
    scratch.git(&["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    scratch.write("a.txt", "one\ntwo\nthree\n");
    scratch.commit("first");
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a.txt", "one\ntwo\nmine\n");
    scratch.write("a.txt", "theirs\ntwo\nthree\n");
    scratch.commit("theirs");
    let wanted = crate::work_land::landing(&agent, bailiwick_lifecycle::ports::Method::Merge);
    assert_eq!(wanted.tree.len(), 64);
    let place = scratch.place().join("ours");
    agent.work().materialise(&wanted.tree, &[&wanted.onto], &place).unwrap();
    assert_eq!(git_in(&scratch, &place, &["status", "--porcelain"]), "");
    agent.work().land(&wanted).unwrap();
    assert_eq!(scratch.read("a.txt"), "theirs\ntwo\nmine\n");
}

#[test]
fn shallow_repository_is_supported() {
    let scratch = repository();
    for text in ["two\n", "three\n", "four\n"] {
        scratch.write("more.txt", text);
        scratch.commit(text);
    }
    let shallow = scratch.place().join("shallow");
    let from = format!("file://{}", scratch.root().display());
    scratch.git(&["clone", "--quiet", "--depth=2", &from, shallow.to_str().unwrap()]);
    let worktree = scratch.place().join("linked");
    git_in(
        &scratch,
        &shallow,
        &["worktree", "add", "--quiet", "-b", "agent/ag-1", worktree.to_str().unwrap()],
    );
    let work = GitWork::open(&shallow, &worktree, &scratch.state(), &id("ag-1"), None).unwrap();
    fs::write(worktree.join("new.txt"), "new\n").unwrap();
    fs::write(shallow.join("other.txt"), "other\n").unwrap();
    git_in(&scratch, &shallow, &["add", "."]);
    git_in(&scratch, &shallow, &["commit", "--quiet", "-m", "other"]);
    let base = work.base().unwrap();
    let found = work.snapshot(&base).unwrap();
    let merged = work.merge(&base, &found).unwrap();
    let bailiwick_lifecycle::ports::Merge::Clean { tree } = merged else { panic!("{merged:?}") };
    let place = scratch.place().join("ours");
    work.materialise(&tree, &[&base.tip, &found.commit], &place).unwrap();
    assert_eq!(git_in(&scratch, &place, &["rev-list", "--count", "HEAD"]), "5\n");
}
