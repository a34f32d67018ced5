//! Giving the files of an ended agent's worktree to a new agent.

use std::fs;
use std::path::Path;

use bailiwick_lifecycle::ports::{Preparation, Workspaces as _};
use bailiwick_source_control::WorktreeWorkspaces;
use bailiwick_source_control::git::take_over_obstacle;
use bailiwick_testkit::Scratch;

use crate::workspaces::{id, over, snapshot, workspaces};

/// An ended agent `ag-1`: a committed change, an uncommitted one, a new file and an ignored one; the base that both
/// agents start from.
fn ended() -> (Scratch, String) {
    let (scratch, workspaces) = workspaces();
    let base = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let earlier = id("ag-1");
    let lock = workspaces.lock(&earlier).unwrap();
    workspaces.add_worktree(&earlier, &base).unwrap();
    workspaces.make_ready(&earlier, &Preparation::default()).unwrap();
    drop(lock);
    let worktree = workspaces.worktree_path(&earlier);
    fs::write(worktree.join("README.md"), "committed\n").unwrap();
    git(&scratch, &worktree, &["commit", "--quiet", "--all", "--message", "work"]);
    fs::write(worktree.join("src/deep er/lib.rs"), "fn left() {}\n").unwrap();
    fs::write(worktree.join("new.txt"), "new\n").unwrap();
    fs::create_dir(worktree.join("target")).unwrap();
    fs::write(worktree.join("target/.gitignore"), "*\n").unwrap();
    fs::write(worktree.join("target/cache"), "built\n").unwrap();
    (scratch, base)
}

fn git(scratch: &Scratch, directory: &Path, arguments: &[&str]) -> String {
    let output = scratch.command("git").current_dir(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn taking(scratch: &Scratch) -> WorktreeWorkspaces {
    over(scratch, scratch.state()).with_files_of(scratch.state().join("worktrees/ag-1"))
}

fn take(scratch: &Scratch, base: &str) {
    let workspaces = taking(scratch);
    let _lock = workspaces.lock(&id("ag-2")).unwrap();
    workspaces.add_worktree(&id("ag-2"), base).unwrap();
}

/// The new worktree has all files, its own branch at the base, and every change uncommitted.
fn assert_taken_over(scratch: &Scratch, base: &str) {
    let worktree = scratch.state().join("worktrees/ag-2");
    let state = over(scratch, scratch.state()).observe(&id("ag-2")).unwrap();
    assert!(state.worktree && state.branch && !state.obstacle, "{state:?}");
    assert_eq!(git(scratch, &worktree, &["rev-parse", "HEAD"]), base);
    assert_eq!(git(scratch, &worktree, &["symbolic-ref", "--short", "HEAD"]), "agent/ag-2");
    let status = git(scratch, &worktree, &["status", "--porcelain"]);
    assert_eq!(status, "M README.md\n M \"src/deep er/lib.rs\"\n?? new.txt");
    assert_eq!(fs::read_to_string(worktree.join("README.md")).unwrap(), "committed\n");
    assert_eq!(fs::read_to_string(worktree.join("target/cache")).unwrap(), "built\n");
    assert!(!scratch.state().join("worktrees/ag-1").exists());
    let listed = scratch.git(&["worktree", "list", "--porcelain"]);
    assert!(listed.contains("worktrees/ag-2") && !listed.contains("worktrees/ag-1"), "{listed}");
    let readme = scratch.git(&["show", "agent/ag-1:README.md"]);
    assert_eq!(readme, "committed\n", "the branch of the earlier run is unchanged");
    let run = scratch.state().join("runs/ag-2");
    assert!(!run.join("taking-over").exists() && !run.join("git-link").exists());
}

#[test]
fn new_agent_gets_the_files_of_an_ended_one_on_its_own_branch() {
    let (scratch, base) = ended();
    take(&scratch, &base);
    assert_taken_over(&scratch, &base);
    take(&scratch, &base);
    assert_taken_over(&scratch, &base);
}

#[test]
fn settings_of_the_earlier_git_directory_are_not_used() {
    let (scratch, base) = ended();
    let earlier = scratch.state().join("worktrees/ag-1");
    scratch.git(&["config", "extensions.worktreeConfig", "true"]);
    let setting = ["config", "--worktree", "core.fsmonitor", "/bin/false"];
    git(&scratch, &earlier, &setting);
    assert_eq!(git(&scratch, &earlier, &["config", "core.fsmonitor"]), "/bin/false");
    take(&scratch, &base);
    let worktree = scratch.state().join("worktrees/ag-2");
    let listed = git(&scratch, &worktree, &["config", "--list"]);
    assert!(!listed.contains("core.fsmonitor"), "{listed}");
}

/// After a kill between any two steps, the next call completes the rest.
#[test]
fn killed_takeover_is_completed_by_the_next_call() {
    let killed: [fn(&Scratch, &str); 4] = [
        // Only the marker exists.
        |_, _| {},
        // Registered, but nothing moved.
        |scratch, base| {
            let path = scratch.state().join("worktrees/ag-2");
            let path = path.to_str().unwrap();
            scratch.git(&[
                "worktree",
                "add",
                "-q",
                "--no-checkout",
                "-b",
                "agent/ag-2",
                path,
                base,
            ]);
        },
        // The new directory was deleted to make room.
        |scratch, base| {
            let path = scratch.state().join("worktrees/ag-2");
            let shown = path.to_str().unwrap();
            let add = ["worktree", "add", "-q", "--no-checkout", "-b", "agent/ag-2", shown, base];
            scratch.git(&add);
            let link = scratch.state().join("runs/ag-2/git-link");
            fs::rename(path.join(".git"), link).unwrap();
            fs::remove_dir(&path).unwrap();
        },
        // The files were moved, with the `.git` file of the earlier worktree.
        |scratch, base| {
            let path = scratch.state().join("worktrees/ag-2");
            let shown = path.to_str().unwrap();
            let add = ["worktree", "add", "-q", "--no-checkout", "-b", "agent/ag-2", shown, base];
            scratch.git(&add);
            let link = scratch.state().join("runs/ag-2/git-link");
            fs::rename(path.join(".git"), link).unwrap();
            fs::remove_dir(&path).unwrap();
            fs::rename(scratch.state().join("worktrees/ag-1"), &path).unwrap();
        },
    ];
    for (step, kill) in killed.into_iter().enumerate() {
        let (scratch, base) = ended();
        fs::create_dir_all(scratch.state().join("runs/ag-2")).unwrap();
        fs::write(scratch.state().join("runs/ag-2/taking-over"), "").unwrap();
        kill(&scratch, &base);
        let state = taking(&scratch).observe(&id("ag-2")).unwrap();
        assert!(!state.worktree, "step {step}: the worktree is complete");
        take(&scratch, &base);
        assert_taken_over(&scratch, &base);
    }
}

#[test]
fn files_deleted_in_the_meantime_are_those_of_the_base() {
    let (scratch, base) = ended();
    scratch.git(&[
        "worktree",
        "remove",
        "--force",
        "--force",
        &format!("{}/worktrees/ag-1", scratch.state().display()),
    ]);
    take(&scratch, &base);
    let worktree = scratch.state().join("worktrees/ag-2");
    assert_eq!(git(&scratch, &worktree, &["status", "--porcelain"]), "");
    assert!(snapshot(&worktree).contains_key(Path::new("README.md")));
}

#[test]
fn submodules_and_unfinished_operations_prevent_a_takeover() {
    let (scratch, _) = ended();
    let worktree = scratch.state().join("worktrees/ag-1");
    let git_dir = git(&scratch, &worktree, &["rev-parse", "--absolute-git-dir"]);
    let git_dir = Path::new(&git_dir);
    assert_eq!(take_over_obstacle(&worktree, git_dir), None);
    fs::write(git_dir.join("MERGE_HEAD"), "").unwrap();
    let merging = take_over_obstacle(&worktree, git_dir).unwrap();
    assert!(merging.contains("unfinished"), "{merging}");
    fs::write(worktree.join(".gitmodules"), "").unwrap();
    assert_eq!(take_over_obstacle(&worktree, git_dir), Some("it has submodules"));
    fs::remove_file(worktree.join(".git")).unwrap();
    assert_eq!(take_over_obstacle(&worktree, git_dir), Some("its files are missing"));
}
