//! Programs that a repository configures for git are not run by us.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bailiwick_lifecycle::ports::Workspaces as _;
use bailiwick_source_control::Repository;
use bailiwick_testkit::Scratch;

use crate::workspaces::{id, workspaces};

const HOOKS: [&str; 3] = ["post-checkout", "reference-transaction", "post-index-change"];

/// An executable that leaves a file of its name in `home/`.
fn program(scratch: &Scratch, directory: &Path, name: &str) {
    fs::create_dir_all(directory).unwrap();
    let marker = scratch.place().join("home").join(name);
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", marker.display())).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn leftovers(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.place().join("home")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn hooks_do_not_run(directory: &str, settings: &[&str]) {
    let (scratch, workspaces) = workspaces();
    for hook in HOOKS {
        program(&scratch, &scratch.root().join(directory), hook);
    }
    if !settings.is_empty() {
        scratch.git(settings);
    }
    for stale in leftovers(&scratch) {
        fs::remove_file(scratch.place().join("home").join(stale)).unwrap();
    }
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    workspaces.observe(&id("ag-1")).unwrap();
    assert_eq!(leftovers(&scratch), Vec::<String>::new());
    // The control: plain git runs them.
    scratch.git(&["worktree", "add", "--quiet", "-b", "plain", "../plain"]);
    let executed_hooks = leftovers(&scratch);
    assert!(
        executed_hooks.iter().any(|name| name == "post-checkout"),
        "plain git ran {executed_hooks:?}"
    );
    assert!(
        executed_hooks.iter().any(|name| name == "reference-transaction"),
        "plain git ran {executed_hooks:?}"
    );
}

#[test]
fn hooks_of_the_repository_do_not_run() {
    hooks_do_not_run(".git/hooks", &[]);
}

#[test]
fn hooks_of_a_configured_directory_do_not_run() {
    hooks_do_not_run("committed-hooks", &["config", "core.hooksPath", "committed-hooks"]);
}

#[test]
fn file_system_monitor_does_not_run() {
    let scratch = Scratch::repository();
    scratch.write("x", "x");
    scratch.commit("first");
    program(&scratch, &scratch.place().join("bin"), "fsmonitor");
    let monitor = scratch.place().join("bin/fsmonitor");
    scratch.git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
    let repository = Repository::discover(&scratch.root()).unwrap();
    repository.differences(&["x"]).unwrap();
    assert_eq!(leftovers(&scratch), Vec::<String>::new());
    scratch.git(&["status"]);
    assert_eq!(leftovers(&scratch), ["fsmonitor"], "the control: plain git runs it");
}
