//! Worktrees whose creation was interrupted, at each point where git can be killed, are created again.

use std::fs;
use std::path::Path;

use bailiwick_lifecycle::ports::{Preparation, Workspaces as _};
use bailiwick_testkit::Scratch;

use crate::workspaces::{id, snapshot, workspaces};

/// Changes a new worktree to its state at some moment of its creation.
type Undo = fn(administrative: &Path, worktree: &Path);

/// In the order of `git worktree add`, the latest first; the states were observed by killing git 2.47
/// at every system call that changes something.
const STATES: [(&str, Undo); 6] = [
    ("some files are not there yet", |administrative, worktree| {
        fs::remove_dir_all(worktree.join("src")).unwrap();
        fs::rename(administrative.join("index"), administrative.join("index.lock")).unwrap();
    }),
    ("no file is there yet", |administrative, worktree| {
        fs::remove_dir_all(worktree.join("src")).unwrap();
        fs::remove_file(worktree.join("README.md")).unwrap();
        fs::remove_file(administrative.join("index")).unwrap();
    }),
    ("its HEAD is not there yet", |administrative, worktree| {
        let rename = |from: &str, to: &str| {
            fs::rename(administrative.join(from), administrative.join(to)).unwrap();
        };
        keep_only(worktree, &[".git"]);
        rename("HEAD", "HEAD.lock");
        keep_only(administrative, &["HEAD.lock", "commondir", "gitdir", "locked", "refs"]);
    }),
    ("its administrative files are half there", |administrative, worktree| {
        keep_only(worktree, &[".git"]);
        keep_only(administrative, &["gitdir", "locked"]);
    }),
    ("its .git is not there yet", |administrative, worktree| {
        keep_only(worktree, &[]);
        keep_only(administrative, &["gitdir", "locked"]);
    }),
    ("only the lock is there", |administrative, worktree| {
        fs::remove_dir_all(worktree).unwrap();
        keep_only(administrative, &["locked"]);
    }),
];

fn keep_only(directory: &Path, names: &[&str]) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if names.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// A worktree that git left locked, as it is during its creation.
fn initializing(scratch: &Scratch, worktree: &Path) {
    let shown = worktree.to_str().unwrap();
    scratch.git(&["worktree", "add", "--quiet", "-b", "agent/ag-1", shown, "HEAD"]);
    scratch.git(&["worktree", "lock", "--reason", "initializing", shown]);
}

fn is_created_again_after(what: &str, undo: Undo) {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let worktree = workspaces.worktree_path(&agent);
    initializing(&scratch, &worktree);
    let state = workspaces.observe(&agent).unwrap();
    assert!(!state.worktree && !state.obstacle, "a locked worktree is not complete: {state:?}");
    undo(&scratch.root().join(".git/worktrees/ag-1"), &worktree);
    let state = workspaces.observe(&agent).unwrap();
    assert!(!state.worktree && !state.obstacle, "{what}: {state:?}");
    workspaces.add_worktree(&agent, "HEAD").unwrap_or_else(|error| panic!("{what}: {error}"));
    let state = workspaces.observe(&agent).unwrap();
    assert!(state.worktree && state.branch && !state.obstacle, "{what}: {state:?}");
    assert_eq!(snapshot(&worktree), snapshot(&scratch.root()), "{what}");
    let status =
        scratch.command("git").current_dir(&worktree).args(["status", "--porcelain"]).output();
    assert_eq!(String::from_utf8(status.unwrap().stdout).unwrap(), "", "{what}");
}

#[test]
fn incomplete_worktree_is_created_again() {
    for (what, undo) in &STATES[..2] {
        is_created_again_after(what, *undo);
    }
}

#[test]
fn invalid_worktree_is_created_again() {
    let mut failed = Vec::new();
    for (what, undo) in &STATES[2..] {
        if std::panic::catch_unwind(|| is_created_again_after(what, *undo)).is_err() {
            failed.push(*what);
        }
    }
    assert!(failed.is_empty(), "not created again: {failed:?}");
}

#[test]
fn deleted_worktree_is_created_again() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let worktree = workspaces.worktree_path(&agent);
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    fs::remove_dir_all(&worktree).unwrap();
    let state = workspaces.observe(&agent).unwrap();
    assert!(!state.worktree && state.branch && !state.obstacle, "{state:?}");
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    assert!(workspaces.observe(&agent).unwrap().worktree);
    assert_eq!(snapshot(&worktree), snapshot(&scratch.root()));
}

#[test]
fn worktree_that_is_created_again_is_not_ready() {
    let (_scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let _lock = workspaces.lock(&agent).unwrap();
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    workspaces.make_ready(&agent, &Preparation::default()).unwrap();
    assert!(workspaces.observe(&agent).unwrap().ready);
    fs::remove_dir_all(workspaces.worktree_path(&agent)).unwrap();
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    assert!(
        !workspaces.observe(&agent).unwrap().ready,
        "the marker belongs to the previous worktree"
    );
}

#[test]
fn branch_without_a_worktree_is_reset_to_the_base() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    scratch.git(&["branch", "agent/ag-1", "HEAD~1"]);
    assert!(workspaces.observe(&agent).unwrap().branch);
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    assert_eq!(scratch.git(&["rev-parse", "agent/ag-1"]), scratch.git(&["rev-parse", "HEAD"]));
    assert_eq!(snapshot(&workspaces.worktree_path(&agent)), snapshot(&scratch.root()));
}
