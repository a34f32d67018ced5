//! Creating workspaces step by step; every step can be repeated.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::{Preparation, SeenWorkspace, TaskDirectory, Workspaces as _};
use bailiwick_model::AgentId;
use bailiwick_source_control::{Repository, WorktreeWorkspaces};
use bailiwick_testkit::Scratch;

pub(crate) fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

/// A repository with two commits, and its workspaces.
pub(crate) fn workspaces() -> (Scratch, WorktreeWorkspaces) {
    let scratch = Scratch::repository();
    scratch.write("README.md", "first\n");
    scratch.write("src/deep er/lib.rs", "fn first() {}\n");
    scratch.commit("first");
    scratch.write("README.md", "second\n");
    scratch.commit("second");
    let workspaces = over(&scratch, scratch.state());
    (scratch, workspaces)
}

pub(crate) fn over(scratch: &Scratch, state: PathBuf) -> WorktreeWorkspaces {
    WorktreeWorkspaces::new(Repository::discover(&scratch.root()).unwrap(), state)
}

pub(crate) fn files() -> TaskDirectory {
    TaskDirectory {
        task: "[task]\nrole = \"x\"\n".to_owned(),
        prompt: "Do it, größer.\n".to_owned(),
    }
}

/// Every file below a directory with its bytes, links by their target; `.git` left out.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name == Path::new(".git") {
                continue;
            }
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, format!("link to {}", target.display()).into_bytes());
            } else if kind.is_dir() {
                open.push(path);
                found.insert(name, b"directory".to_vec());
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn head(scratch: &Scratch, directory: &Path) -> (String, String) {
    let git = |arguments: &[&str]| {
        let output =
            scratch.command("git").current_dir(directory).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    (git(&["rev-parse", "HEAD"]), git(&["symbolic-ref", "--short", "HEAD"]))
}

#[test]
fn every_step_of_a_spawn_is_observed() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let base = scratch.git(&["rev-parse", "HEAD~1"]).trim().to_owned();
    let mut state = SeenWorkspace::default();
    assert_eq!(workspaces.observe(&agent).unwrap(), state);

    let _lock = workspaces.lock(&agent).unwrap();
    assert_eq!(workspaces.observe(&agent).unwrap(), state, "a lock is not part of the workspace");

    workspaces.write_task(&agent, &files()).unwrap();
    state.task_directory = true;
    assert_eq!(workspaces.observe(&agent).unwrap(), state);
    assert_eq!(scratch.read("tasks/ag-1/task.toml"), files().task);
    assert_eq!(scratch.read("tasks/ag-1/prompt.md"), files().prompt);

    workspaces.add_worktree(&agent, &base).unwrap();
    (state.branch, state.worktree) = (true, true);
    assert_eq!(workspaces.observe(&agent).unwrap(), state);
    let worktree = workspaces.worktree_path(&agent);
    assert_eq!(worktree, scratch.state().join("worktrees/ag-1"));
    assert_eq!(head(&scratch, &worktree), (base, "agent/ag-1".to_owned()));
    assert_eq!(fs::read_to_string(worktree.join("README.md")).unwrap(), "first\n");
    assert_eq!(fs::read_to_string(worktree.join("src/deep er/lib.rs")).unwrap(), "fn first() {}\n");
    assert_eq!(head(&scratch, &scratch.root()).1, "main", "the checkout has moved");
    assert_eq!(scratch.read("README.md"), "second\n");
    let branches = scratch.git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(branches, "refs/heads/agent/ag-1\nrefs/heads/main\n");

    workspaces.make_ready(&agent, &Preparation::default()).unwrap();
    state.ready = true;
    assert_eq!(workspaces.observe(&agent).unwrap(), state);
    assert_eq!(workspaces.observe(&id("ag-2")).unwrap(), SeenWorkspace::default());
}

#[test]
fn task_directory_is_ignored_by_git() {
    let (scratch, workspaces) = workspaces();
    let status = || scratch.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(status(), "");
    workspaces.write_task(&id("ag-1"), &files()).unwrap();
    assert_eq!(status(), "");
    scratch.git(&["add", "--all"]);
    assert_eq!(scratch.git(&["diff", "--cached", "--name-only"]), "");
    fs::remove_file(scratch.root().join("tasks/ag-1/.gitignore")).unwrap();
    assert!(status().contains("tasks/ag-1/task.toml"), "without its .gitignore git would see it");
}

#[test]
fn no_temporary_file_is_left_in_tasks() {
    let (scratch, workspaces) = workspaces();
    let names =
        || -> Vec<PathBuf> { snapshot(&scratch.root().join("tasks")).into_keys().collect() };
    let expected = ["ag-1", "ag-1/.gitignore", "ag-1/prompt.md", "ag-1/task.toml"];
    workspaces.write_task(&id("ag-1"), &files()).unwrap();
    assert_eq!(names(), expected.map(PathBuf::from));
    let changed = TaskDirectory { task: "other".to_owned(), prompt: "other".to_owned() };
    let second = workspaces.write_task(&id("ag-1"), &changed);
    assert!(second.is_err(), "an existing task was overwritten");
    assert_eq!(names(), expected.map(PathBuf::from));
    assert_eq!(scratch.read("tasks/ag-1/task.toml"), files().task);
}

#[test]
fn unwritable_task_directory_is_named_in_the_error() {
    let (scratch, workspaces) = workspaces();
    scratch.write("tasks", "a file where the directory should be");
    let error = workspaces.write_task(&id("ag-1"), &files()).unwrap_err().to_string();
    assert!(error.contains("tasks/ag-1 cannot be written"), "{error}");
    assert_eq!(scratch.read("tasks"), "a file where the directory should be");
}

#[test]
fn repeated_step_changes_nothing() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let _lock = workspaces.lock(&agent).unwrap();
    let base = head(&scratch, &scratch.root()).0;
    scratch.write("data/x", "copied");
    let preparation = Preparation {
        prefetch: Vec::new(),
        hosts: Vec::new(),
        copy: vec!["data".to_owned()],
        setup: vec!["echo made > made.txt".to_owned()],
    };
    workspaces.write_task(&agent, &files()).unwrap();
    workspaces.add_worktree(&agent, &base).unwrap();
    workspaces.make_ready(&agent, &preparation).unwrap();
    let worktree = workspaces.worktree_path(&agent);
    let work = |name: &str| fs::write(worktree.join(name), "the agent's own").unwrap();
    work("work.txt");
    let git = |arguments: &[&str]| {
        let output = scratch.command("git").current_dir(&worktree).args(arguments).output();
        assert!(output.unwrap().status.success());
    };
    git(&["add", "work.txt"]);
    git(&["commit", "--quiet", "-m", "the agent's own"]);
    work("not-yet-committed.txt");
    let run_all_steps = || {
        let inside = (snapshot(&worktree), snapshot(&scratch.root().join("tasks")));
        (inside, head(&scratch, &worktree), workspaces.observe(&agent).unwrap())
    };
    let before = run_all_steps();
    // The plan skips completed steps; a repeated one may be refused.
    let _refused = workspaces.write_task(&agent, &files());
    assert_eq!(run_all_steps(), before, "write_task");
    let _refused = workspaces.add_worktree(&agent, &base);
    assert_eq!(run_all_steps(), before, "add_worktree");
    workspaces.make_ready(&agent, &preparation).unwrap();
    assert_eq!(run_all_steps(), before, "make_ready");
}

#[test]
fn foreign_files_are_an_obstacle_and_are_kept() {
    let (_scratch, workspaces) = workspaces();
    let place = |name: &str| workspaces.worktree_path(&id(name));
    fs::create_dir_all(place("directory")).unwrap();
    fs::write(place("directory").join("precious"), "mine").unwrap();
    fs::write(place("file"), "mine").unwrap();
    fs::create_dir(place("empty")).unwrap();
    for name in ["directory", "file"] {
        let state = workspaces.observe(&id(name)).unwrap();
        assert!(state.obstacle && !state.worktree, "{name}: {state:?}");
        let error = workspaces.add_worktree(&id(name), "HEAD").unwrap_err();
        assert!(error.to_string().contains(place(name).to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_to_string(place("directory").join("precious")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(place("file")).unwrap(), "mine");
    assert!(!workspaces.observe(&id("empty")).unwrap().obstacle);
    workspaces.add_worktree(&id("empty"), "HEAD").unwrap();
    assert!(workspaces.observe(&id("empty")).unwrap().worktree);
}

#[test]
fn link_in_the_place_of_the_worktree_is_not_followed() {
    let (scratch, workspaces) = workspaces();
    let elsewhere = scratch.place().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(scratch.state().join("worktrees")).unwrap();
    symlink(&elsewhere, workspaces.worktree_path(&id("linked"))).unwrap();
    symlink("nowhere", workspaces.worktree_path(&id("dangling"))).unwrap();
    for name in ["linked", "dangling"] {
        let state = workspaces.observe(&id(name)).unwrap();
        assert!(state.obstacle, "{name} is an obstacle: {state:?}");
    }
    assert_eq!(snapshot(&elsewhere), BTreeMap::new());
}

#[test]
fn worktree_of_another_repository_is_an_obstacle() {
    let (scratch, workspaces) = workspaces();
    let (other, _) = self::workspaces();
    over(&other, scratch.state()).add_worktree(&id("ag-1"), "HEAD").unwrap();
    let state = workspaces.observe(&id("ag-1")).unwrap();
    assert!(state.obstacle && !state.worktree && !state.branch, "{state:?}");
}

#[test]
fn error_has_the_message_of_git() {
    let (scratch, workspaces) = workspaces();
    let error = workspaces.add_worktree(&id("ag-1"), "no-such-commit").unwrap_err().to_string();
    assert!(error.contains("no-such-commit") && error.contains("fatal: "), "{error}");
    scratch.git(&["branch", "agent"]);
    let error = workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap_err().to_string();
    assert!(error.contains("refs/heads/agent"), "{error}");
    assert!(!workspaces.worktree_path(&id("ag-1")).join("README.md").exists());
}

#[test]
fn id_can_be_locked_once_at_a_time() {
    let (_scratch, workspaces) = workspaces();
    let first = workspaces.lock(&id("ag-1")).unwrap();
    let Err(error) = workspaces.lock(&id("ag-1")) else { panic!("it was locked twice") };
    assert!(error.to_string().contains("`ag-1` is in use"), "{error}");
    let _other = workspaces.lock(&id("ag-2")).unwrap();
    drop(first);
    // A process that another test starts at this moment has the file open until it runs.
    let late = Instant::now() + Duration::from_secs(60);
    while workspaces.lock(&id("ag-1")).is_err() {
        assert!(Instant::now() < late, "it stays locked");
        std::thread::yield_now();
    }
}

#[test]
fn lock_lasts_as_long_as_its_child_processes() {
    let (scratch, workspaces) = workspaces();
    let agent = id("ag-1");
    let lock = workspaces.lock(&agent).unwrap();
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    let pipe = scratch.place().join("pipe");
    scratch.run("mkfifo", &[pipe.to_str().unwrap()]).expect_code(0);
    // Runs in the background until it is stopped, like the setup of a killed spawn.
    let command = format!("exec 3<&0; sh -c 'read line' < '{}' &", pipe.display());
    let how =
        Preparation { copy: vec![], setup: vec![command], prefetch: Vec::new(), hosts: Vec::new() };
    workspaces.make_ready(&agent, &how).unwrap();
    drop(lock);
    let while_running = workspaces.lock(&agent).map(drop);
    fs::write(&pipe, "stop\n").unwrap();
    assert!(while_running.is_err(), "the id is free although the command still runs");
    while workspaces.lock(&agent).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn state_directories_are_private() {
    let (scratch, workspaces) = workspaces();
    let _lock = workspaces.lock(&id("ag-1")).unwrap();
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    for place in ["runs/ag-1", "worktrees"] {
        let mode = fs::metadata(scratch.state().join(place)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{place}");
    }
}

#[test]
fn state_directory_behind_a_link_is_found() {
    let (scratch, _) = workspaces();
    let link = scratch.place().join("state-link");
    symlink(scratch.state(), &link).unwrap();
    let workspaces = over(&scratch, link);
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    let state = workspaces.observe(&id("ag-1")).unwrap();
    assert!(state.worktree && !state.obstacle, "{state:?}");
    fs::remove_dir_all(workspaces.worktree_path(&id("ag-1"))).unwrap();
    assert!(!workspaces.observe(&id("ag-1")).unwrap().worktree);
    workspaces.add_worktree(&id("ag-1"), "HEAD").unwrap();
    assert!(workspaces.observe(&id("ag-1")).unwrap().worktree);
}
