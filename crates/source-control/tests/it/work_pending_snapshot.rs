//! Snapshots that were started early, and cached indexes: both record exactly the work.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_source_control::GitWork;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};

/// The changes in a fresh snapshot of this work.
fn changed(work: &GitWork) -> Vec<String> {
    let snapshot = work.snapshot(&work.base().unwrap()).unwrap();
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    changes.into_iter().map(|change| change.path).collect()
}

fn head(scratch: &Scratch, agent: &Agent) -> String {
    agent.git(scratch, &["rev-parse", "HEAD"]).trim().to_owned()
}

/// Directories of operations in progress.
fn under_way(scratch: &Scratch) -> Vec<PathBuf> {
    let all = fs::read_dir(scratch.state().join("temporary")).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn pending_snapshot_records_the_moment_of_its_start() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("early", "written before\n");
    let early = agent.git(&scratch, &["hash-object", "early"]);
    let is_recorded = || {
        let mut git = scratch.command("git");
        git.args(["cat-file", "-e", early.trim()]);
        git.output().unwrap().status.success()
    };
    assert!(!is_recorded(), "it is not recorded yet");
    let work = agent.work();
    work.start_snapshot(&head(&scratch, &agent)).unwrap();
    wait_until(|| is_recorded() && under_way(&scratch).is_empty());
    agent.write("late", "written after\n");
    assert_eq!(changed(&work), ["early"]);
    assert_eq!(changed(&work), ["early", "late"]);
}

#[test]
fn error_of_a_pending_snapshot_does_not_affect_the_next() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    fs::create_dir_all(agent.worktree.join("nested")).unwrap();
    git_in(&scratch, &agent.worktree.join("nested"), &["init", "--quiet"]);
    agent.write("nested/file", "file\n");
    git_in(&scratch, &agent.worktree.join("nested"), &["add", "file"]);
    git_in(&scratch, &agent.worktree.join("nested"), &["commit", "--quiet", "-m", "nested"]);
    let work = agent.work();
    work.start_snapshot(&head(&scratch, &agent)).unwrap();
    let error = work.snapshot(&work.base().unwrap()).unwrap_err();
    assert!(error.why.contains("has a git repository of its own"), "{error}");
    assert!(error.caused_by_agent, "the agent can fix it");
    fs::remove_dir_all(agent.worktree.join("nested/.git")).unwrap();
    assert_eq!(changed(&work), ["nested/file"]);
}

#[test]
fn report_is_left_out_and_a_dropped_snapshot_leaves_no_files() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write(".claude/agents/ag-1/review.md", "report\n");
    agent.write("new", "new\n");
    let commit = head(&scratch, &agent);
    let work = agent.work();
    work.start_snapshot(&commit).unwrap();
    assert_eq!(changed(&work), ["new"]);
    let object = agent.git(&scratch, &["hash-object", "-w", "new"]);
    work.start_snapshot(&commit).unwrap();
    // Also if it is deleted when the snapshot is completed.
    wait_until(|| !under_way(&scratch).is_empty());
    let staged = || {
        under_way(&scratch).iter().any(|place| {
            let mut git = scratch.command("git");
            git.current_dir(&agent.worktree).args(["ls-files", "--stage"]);
            let listed = git.env("GIT_INDEX_FILE", place.join("index")).output().unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            listed.contains(object.trim()) && listed.contains("review.md")
        })
    };
    wait_until(staged);
    fs::remove_file(agent.worktree.join(".claude/agents/ag-1/review.md")).unwrap();
    assert_eq!(changed(&work), ["new"]);
    agent.write(".claude/agents/ag-1/review.md", "report\n");
    work.start_snapshot(&commit).unwrap();
    drop(work);
    assert_eq!(under_way(&scratch), Vec::<PathBuf>::new());
    let work = agent.work();
    work.start_snapshot("main").unwrap();
    assert_eq!(changed(&work), ["new"], "an invalid object name starts no snapshot");
}

/// An agent with many files that are all newer than its index, and older than this second.
fn with_new_files(scratch: &Scratch) -> Agent {
    for number in 0..600 {
        scratch.write(&format!("many/{number}"), &format!("file {number}\n"));
    }
    scratch.commit("many");
    let agent = Agent::spawn(scratch, "ag-1");
    let index = index_of(scratch);
    let past = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(index).unwrap().set_modified(past).unwrap();
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let created_at = second();
    wait_until(|| second() > created_at + 1);
    agent
}

fn index_of(scratch: &Scratch) -> PathBuf {
    scratch.root().join(".git/worktrees/ag-1/index")
}

/// Another text of the same length, with the old modification time.
fn change_quietly(file: &Path) {
    let before = fs::metadata(file).unwrap().modified().unwrap();
    let text = fs::read_to_string(file).unwrap().to_uppercase();
    fs::write(file, text).unwrap();
    File::options().write(true).open(file).unwrap().set_modified(before).unwrap();
}

#[test]
fn cached_index_hides_no_change() {
    let scratch = repository();
    let agent = with_new_files(&scratch);
    let cached_index = scratch.state().join("runs/ag-1/index");
    change_quietly(&agent.worktree.join("many/7"));
    assert!(!cached_index.exists());
    assert_eq!(changed(&agent.work()), ["many/7"]);
    let first = fs::read(&cached_index).unwrap();
    change_quietly(&agent.worktree.join("many/8"));
    agent.write("new", "new\n");
    assert_eq!(changed(&agent.work()), ["many/7", "many/8", "new"]);
    assert_eq!(fs::read(&cached_index).unwrap(), first, "the cached index was not used again");
    // A new file that is ignored from now on is not in the cache.
    agent.write(".gitignore", "target/\n*.log\nnew\n");
    assert_eq!(changed(&agent.work()), [".gitignore", "many/7", "many/8"]);
    // Files in the agent's own index are recorded, ignored or not.
    agent.git(&scratch, &["add", "--force", "new"]);
    assert_eq!(changed(&agent.work()), [".gitignore", "many/7", "many/8", "new"]);
}

#[test]
fn cached_index_is_used_only_for_the_same_index() {
    let scratch = repository();
    let agent = with_new_files(&scratch);
    let cached_index = scratch.state().join("runs/ag-1/index");
    change_quietly(&agent.worktree.join("many/7"));
    assert_eq!(changed(&agent.work()), ["many/7"]);
    let first = fs::read(&cached_index).unwrap();
    let line = first.iter().position(|byte| *byte == b'\n').unwrap();
    let (head, _) = first.split_at(line);
    // Positive control: the bytes after a valid first line are used as the index.
    fs::write(&cached_index, [head, b"\nno index"].concat()).unwrap();
    let work = agent.work();
    work.snapshot(&work.base().unwrap()).unwrap_err();
    for other in [b"".as_slice(), b"no line", b"0 0 0\nno index"] {
        fs::write(&cached_index, other).unwrap();
        assert_eq!(changed(&work), ["many/7"]);
        assert_eq!(fs::read(&cached_index).unwrap().len(), first.len(), "written again");
    }
    // The same bytes with another time may describe other files.
    fs::write(&cached_index, [head, b"\nno index"].concat()).unwrap();
    let later = UNIX_EPOCH + Duration::from_secs(1_000_000_001);
    File::options().write(true).open(index_of(&scratch)).unwrap().set_modified(later).unwrap();
    assert_eq!(changed(&work), ["many/7"]);
}
