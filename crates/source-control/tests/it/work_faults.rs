//! Faults of another public implementation of the same idea that must not occur here.

use std::fs;
use std::path::Path;

use bailiwick_lifecycle::ports::{Merge, Work as _};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};

fn compiles(scratch: &Scratch, directory: &Path) -> bool {
    let out = scratch.place().join("compiled");
    fs::create_dir_all(&out).unwrap();
    let mut command = scratch.command("rustc");
    // The compiler may be a proxy that reads its home.
    for name in ["RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    command.current_dir(directory).args(["--edition=2024", "--crate-type=lib", "--emit=metadata"]);
    let output = command.arg("--out-dir").arg(out).arg("src/lib.rs").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || stderr.contains("error[E0425]"), "{stderr}");
    output.status.success()
}

/// The simulated merge applied `git diff main` to main, which gives the agent's own tree again: a merge
/// that does not compile passed. It left worktrees behind, and failed on a second run, on
/// binary files and on untracked ones.
#[test]
fn fault_1_trial_merge_is_the_tree_that_would_land() {
    let scratch = repository();
    scratch.write("src/lib.rs", "pub mod area;\n\npub fn double(x: u32) -> u32 {\n    x + x\n}\n");
    scratch.write("src/area.rs", "// nothing yet\n");
    scratch.commit("a library");
    let agent = Agent::spawn(&scratch, "ag-1");
    // The agent's tree compiles alone, with files that are not even staged.
    agent
        .write("src/area.rs", "mod side;\n\npub fn area(x: u32) -> u32 {\n    side::twice(x)\n}\n");
    agent.write("src/area/side.rs", "pub fn twice(x: u32) -> u32 {\n    crate::double(x)\n}\n");
    agent.write("logo.bin", [0, 255, 0, 254, 10, 13, 0]);
    // The base renames a function that the agent calls, in another file.
    scratch.write("src/lib.rs", "pub mod area;\n\npub fn twofold(x: u32) -> u32 {\n    x + x\n}\n");
    scratch.commit("rename");
    let before = (scratch.git(&["worktree", "list"]), scratch.git(&["for-each-ref"]));
    let mut trees = Vec::new();
    for run in 0..2 {
        let work = agent.work();
        let (base, snapshot) = agent.snapshot();
        let own_tree = scratch.place().join(format!("alone-{run}"));
        work.materialise(&snapshot.tree, &[&snapshot.merge_base], &own_tree).unwrap();
        assert!(compiles(&scratch, &own_tree), "the agent's own tree compiles");
        let Merge::Clean { tree } = work.merge(&base, &snapshot).unwrap() else { panic!() };
        assert_ne!(tree, snapshot.tree, "the merge is not the agent's own tree");
        let merged = scratch.place().join(format!("merged-{run}"));
        work.materialise(&tree, &[&base.tip, &snapshot.commit], &merged).unwrap();
        assert!(!compiles(&scratch, &merged), "the merged tree compiles");
        assert!(fs::read_to_string(merged.join("src/lib.rs")).unwrap().contains("twofold"));
        assert_eq!(fs::read(merged.join("logo.bin")).unwrap(), [0, 255, 0, 254, 10, 13, 0]);
        assert!(merged.join("src/area/side.rs").exists(), "untracked files are missing");
        trees.push(tree);
    }
    assert_eq!(trees.first(), trees.last(), "a second run gave another tree");
    let after = (scratch.git(&["worktree", "list"]), scratch.git(&["for-each-ref"]));
    assert_eq!(before, after, "files were left behind");
}

/// Scope verification missed untracked files, blamed the agent for changes of the base branch, and
/// supported no other base than `main`.
#[test]
fn fault_2_changes_are_exactly_the_agents_own() {
    for name in ["main", "trunk", "release/2"] {
        let scratch = repository();
        if name != "main" {
            scratch.git(&["branch", "--quiet", "-m", name]);
        }
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.write("src/lib.rs", "fn mine() {}\n");
        agent.commit(&scratch, "mine");
        agent.write("untracked/deep.txt", "mine\n");
        scratch.write("theirs.txt", "theirs\n");
        scratch.write("README.md", "theirs\n");
        scratch.commit("theirs");
        let (base, snapshot) = agent.snapshot();
        assert_eq!(base.branch, format!("refs/heads/{name}"));
        let work = agent.work();
        let paths = |before: &str, after: &str| -> Vec<String> {
            let changes = work.changes(before, after).unwrap();
            changes.into_iter().map(|change| change.path).collect()
        };
        let own_changes = paths(&snapshot.merge_base_tree, &snapshot.tree);
        assert_eq!(own_changes, ["src/lib.rs", "untracked/deep.txt"], "{name}");
        let Merge::Clean { tree } = work.merge(&base, &snapshot).unwrap() else { panic!() };
        assert_eq!(paths(&base.tree, &tree), own_changes, "the changes differ on the current base");
        let against_tip = paths(&base.tree, &snapshot.tree);
        assert!(
            against_tip.contains(&"theirs.txt".to_owned()),
            "the control: a plain comparison includes it"
        );
    }
}
