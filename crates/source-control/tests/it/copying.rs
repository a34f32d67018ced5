//! Files that are copied from the checkout into the worktree.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{Preparation, WorkspaceError, Workspaces as _};
use bailiwick_source_control::WorktreeWorkspaces;
use bailiwick_testkit::Scratch;

use crate::workspaces::{id, snapshot, workspaces};

/// A locked agent `ag-1` with its worktree; the checkout is ready to have files added.
fn with_worktree() -> (Scratch, WorktreeWorkspaces, PathBuf) {
    let (scratch, workspaces) = workspaces();
    drop(workspaces.lock(&id("ag-1")).unwrap());
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    let worktree = workspaces.worktree_path(&id("ag-1"));
    (scratch, workspaces, worktree)
}

fn copy(workspaces: &WorktreeWorkspaces, paths: &[&str]) -> Result<(), WorkspaceError> {
    let copy = paths.iter().map(|path| (*path).to_owned()).collect();
    workspaces.make_ready(
        &id("ag-1"),
        &Preparation { copy, setup: Vec::new(), prefetch: Vec::new(), hosts: Vec::new() },
    )
}

fn refused(workspaces: &WorktreeWorkspaces, path: &str) -> String {
    let error = copy(workspaces, &[path]).unwrap_err().to_string();
    assert!(error.contains(&format!("{path} cannot be copied")), "{error}");
    assert!(!workspaces.observe(&id("ag-1")).unwrap().ready, "{error}, yet it is ready");
    error
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn files_directories_and_links_are_copied_unchanged() {
    let (scratch, workspaces, worktree) = with_worktree();
    scratch.write(".env", "KEY=1\n");
    scratch.write("node modules/ü/deep/x.js", "x\n");
    scratch.write("node modules/run.sh", "#!/bin/sh\n");
    scratch.write("not-asked-for", "x\n");
    let root = scratch.root();
    let script = root.join("node modules/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(root.join("node modules/empty")).unwrap();
    symlink("ü/deep", root.join("node modules/link")).unwrap();
    symlink("/nowhere/at/all", root.join("node modules/dangling")).unwrap();
    symlink(".env", root.join("lonely-link")).unwrap();
    copy(&workspaces, &[".env", "node modules", "lonely-link"]).unwrap();
    assert_eq!(snapshot(&worktree.join("node modules")), snapshot(&root.join("node modules")));
    assert_eq!(read(&worktree.join(".env")), "KEY=1\n");
    assert_eq!(fs::read_link(worktree.join("lonely-link")).unwrap(), Path::new(".env"));
    let mode = fs::metadata(worktree.join("node modules/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert!(!worktree.join("not-asked-for").exists());
    // The second copy finds every file unchanged, and each copy is independent.
    copy(&workspaces, &[".env", "node modules", "lonely-link"]).unwrap();
    scratch.write(".env", "KEY=2\n");
    assert_eq!(read(&worktree.join(".env")), "KEY=1\n");
    let remaining: Vec<PathBuf> = snapshot(&worktree).into_keys().collect();
    assert!(
        !remaining.iter().any(|path| path.to_string_lossy().contains(".copy-")),
        "{remaining:?}"
    );
}

#[test]
fn missing_parent_directories_are_created() {
    let (scratch, workspaces, worktree) = with_worktree();
    scratch.write("a/b/c/x", "x");
    scratch.write("a/b/y", "y");
    copy(&workspaces, &["a/b/c/x"]).unwrap();
    assert_eq!(read(&worktree.join("a/b/c/x")), "x");
    assert!(!worktree.join("a/b/y").exists());
}

#[test]
fn different_file_in_the_worktree_is_kept_and_reported() {
    let (scratch, workspaces, worktree) = with_worktree();
    scratch.write("README.md", "changed in the checkout\n");
    refused(&workspaces, "README.md");
    assert_eq!(read(&worktree.join("README.md")), "second\n");
    scratch.write("README.md", "second\n");
    copy(&workspaces, &["README.md"]).unwrap();
}

#[test]
fn files_directories_and_links_do_not_replace_each_other() {
    let (scratch, workspaces, worktree) = with_worktree();
    let root = scratch.root();
    scratch.write("directory-over-file/x", "x");
    fs::write(worktree.join("directory-over-file"), "theirs").unwrap();
    scratch.write("file-over-directory", "x");
    fs::create_dir(worktree.join("file-over-directory")).unwrap();
    symlink("target", root.join("link-over-file")).unwrap();
    fs::write(worktree.join("link-over-file"), "theirs").unwrap();
    symlink("target", root.join("link-over-link")).unwrap();
    symlink("other", worktree.join("link-over-link")).unwrap();
    let before = snapshot(&worktree);
    for path in ["directory-over-file", "file-over-directory", "link-over-file", "link-over-link"] {
        refused(&workspaces, path);
        assert_eq!(snapshot(&worktree), before, "{path}");
    }
}

#[test]
fn missing_file_or_pipe_is_an_error() {
    let (scratch, workspaces, _) = with_worktree();
    let error = refused(&workspaces, "no/such/file");
    assert!(error.contains("No such file"), "{error}");
    scratch.run("mkfifo", &["pipe"]).expect_code(0);
    refused(&workspaces, "pipe");
}

#[test]
fn copy_does_not_leave_the_worktree_through_a_link() {
    let (scratch, workspaces) = workspaces();
    let outside = scratch.place().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, scratch.root().join("cache")).unwrap();
    scratch.commit("the base has a link");
    drop(workspaces.lock(&id("ag-1")).unwrap());
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    // In the checkout it has become a directory.
    fs::remove_file(scratch.root().join("cache")).unwrap();
    scratch.write("cache/x", "x");
    for path in ["cache/x", "cache"] {
        let copied = copy(&workspaces, &[path]);
        assert_eq!(snapshot(&outside).len(), 0, "{path} was written outside: {copied:?}");
        assert!(copied.is_err(), "{path} was copied without an error");
    }
}
