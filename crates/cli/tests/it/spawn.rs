//! `spawn`: what it creates, what it refuses, and how it recovers from a kill.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bailiwick_testkit::random::Random;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::{Depth, Scratch, figure};

use crate::BAILIWICK;

const TASK: &str = "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \"go\"\n";

fn repository() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("src/a.txt", "a\n");
    scratch.write("task.toml", TASK);
    scratch.commit("start");
    scratch
}

fn spawn(scratch: &Scratch, more: &[&str]) -> Ran {
    scratch.run(BAILIWICK, &[&["spawn", "task.toml"], more].concat())
}

/// A directory on PATH with programs for setup commands.
struct Programs(PathBuf);

impl Programs {
    fn beside(scratch: &Scratch) -> Self {
        let directory = scratch.place().join("programs");
        std::fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    /// Adds the program that a setup needs.
    fn install(&self) {
        std::os::unix::fs::symlink("/bin/true", self.0.join("program-of-setup")).unwrap();
    }

    fn run(&self, scratch: &Scratch, arguments: &[&str], more: &[&str]) -> Ran {
        let path = format!("{}:{}", self.0.display(), std::env::var("PATH").unwrap());
        let mut command = scratch.command(BAILIWICK);
        Ran::from(command.args(arguments).args(more).env("PATH", path).output().unwrap())
    }
}

#[test]
fn spawn_creates_task_branch_worktree_and_ledger_row() {
    let scratch = repository();
    let base = scratch.git(&["rev-parse", "HEAD"]);
    let ran = spawn(&scratch, &["--agent-id", "one", "-o", "json"]).expect_code(0);
    let spawned: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(spawned["branch"], "agent/one");
    assert_eq!(scratch.git(&["rev-parse", "agent/one"]), base);
    let worktree = spawned["worktree"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(format!("{worktree}/src/a.txt")).unwrap(), "a\n");
    let head = scratch.git(&["-C", worktree, "symbolic-ref", "HEAD"]);
    assert_eq!(head, "refs/heads/agent/one\n");
    let task = scratch.read("tasks/one/task.toml");
    assert!(task.contains("agent-id = \"one\""), "{task}");
    let sha = bailiwick_model::Sha256Hex::of(&task).to_string();
    assert_eq!(spawned["spec_sha"].as_str(), Some(sha.as_str()));
    assert_eq!(scratch.run(BAILIWICK, &["ledger", "spec", "one"]).out, task);
    assert_eq!(scratch.run(BAILIWICK, &["ledger", "spec", sha.get(..10).unwrap()]).out, task);
    scratch.run(BAILIWICK, &["ledger", "validate", "agent/one"]).expect_code(0);
    std::fs::remove_file(scratch.root().join("tasks/one/prompt.md")).unwrap();
    let missing = scratch.run(BAILIWICK, &["ledger", "validate", "one"]).expect_code(2);
    assert!(missing.err.contains("prompt.md"), "{}", missing.err);
}

#[test]
fn spawn_reads_rules_and_task_from_the_base_commit() {
    let scratch = repository();
    let role = "[role]\nname = \"developer\"\ndescription = \"d\"\n[capabilities]\nrequired = []\n[tools]\nallowed = [\"*\"]\n";
    scratch.write(".bailiwick/roles/developer.toml", role);
    let prepared = scratch.run(BAILIWICK, &["prepare", "task.toml"]);
    assert!(prepared.err.contains("no capability of role `developer` accepts"), "{}", prepared.err);
    let ran = spawn(&scratch, &["--agent-id", "one"]).expect_code(0);
    assert!(ran.err.contains(".bailiwick/roles/developer.toml is not committed"), "{}", ran.err);
    assert!(scratch.read("tasks/one/prompt.md").contains("MUST NOT change git state"));
    let first = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    scratch.write("task.toml", "[task]\nrole = \"developer\"\n[body]\ntext = \"go\"\n");
    scratch.commit("loose role");
    spawn(&scratch, &["--agent-id", "two"]).expect_code(0);
    assert!(
        !scratch.read("tasks/two/prompt.md").contains("MUST NOT change git state"),
        "the control"
    );
    spawn(&scratch, &["--agent-id", "three", "--base", &first]).expect_code(0);
    assert!(scratch.read("tasks/three/prompt.md").contains("MUST NOT change git state"));
    spawn(&scratch, &["--base", "nowhere"]).expect_code(2);
}

#[test]
fn agent_id_can_be_used_only_once() {
    let scratch = repository();
    spawn(&scratch, &["--agent-id", "one"]).expect_code(0);
    let again = spawn(&scratch, &["--agent-id", "one"]).expect_code(2);
    assert!(again.err.contains("there is a run `one` already (running)"), "{}", again.err);
    scratch.git(&["branch", "agent/two"]);
    let branch = spawn(&scratch, &["--agent-id", "two"]).expect_code(2);
    assert!(branch.err.contains("the branch agent/two exists"), "{}", branch.err);
    scratch.write("tasks/three/mine", "");
    let directory = spawn(&scratch, &["--agent-id", "three"]).expect_code(2);
    assert!(directory.err.contains("tasks/three/ exists"), "{}", directory.err);
    assert!(scratch.root().join("tasks/three/mine").exists());
    spawn(&scratch, &["--agent-id", "four.lock"]).expect_code(2);
    let rows = scratch.run(BAILIWICK, &["ledger", "list", "-o", "json"]).out;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&rows).unwrap().as_array().unwrap().len(),
        1
    );
}

#[test]
fn concurrent_spawns_of_one_id_succeed_exactly_once() {
    let scratch = repository();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = scratch.command(BAILIWICK);
            command.args(["spawn", "task.toml", "--agent-id", "one"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let outputs: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let successes = outputs.iter().filter(|output| output.status.success()).count();
    let errors: Vec<_> =
        outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    assert_eq!(successes, 1, "{errors:?}");
    scratch.run(BAILIWICK, &["ledger", "validate", "agent/one"]).expect_code(0);
}

#[test]
fn worktree_has_copied_files_and_setup_has_run() {
    let scratch = repository();
    scratch.write(".gitignore", ".env\ncache/\n");
    scratch.write(".env", "KEY=1\n");
    scratch.write("cache/deep/x", "x");
    let workspace = "[workspace]\ncopy = [\".env\", \"cache\"]\nsetup = [\"echo on stdout; cat .env > made\"]\n";
    scratch.write("task.toml", &TASK.replace("[body]", &format!("{workspace}[body]")));
    scratch.commit("more");
    let ran = spawn(&scratch, &["--agent-id", "one", "-o", "json"]).expect_code(0);
    serde_json::from_str::<serde_json::Value>(&ran.out)
        .expect("the output of setup is not on stdout");
    assert!(ran.err.contains("setting up: echo on stdout"), "{}", ran.err);
    let worktree = scratch.state().join("worktrees/one");
    assert_eq!(std::fs::read_to_string(worktree.join("made")).unwrap(), "KEY=1\n");
    assert_eq!(std::fs::read_to_string(worktree.join("cache/deep/x")).unwrap(), "x");
}

#[test]
fn spawn_can_be_repeated_after_a_failed_setup() {
    let scratch = repository();
    let programs = Programs::beside(&scratch);
    let setup = "[workspace]\nsetup = [\"program-of-setup\"]\n[body]";
    scratch.write("task.toml", &TASK.replace("[body]", setup));
    let spawn =
        |scratch: &Scratch, more: &[&str]| programs.run(scratch, &["spawn", "task.toml"], more);
    let ran = spawn(&scratch, &["--agent-id", "one"]).expect_code(1);
    assert!(
        ran.err.contains("the setup command") && ran.err.contains("--agent-id one"),
        "{}",
        ran.err
    );
    let list = scratch.run(BAILIWICK, &["ledger", "list"]).out;
    assert!(list.contains("half-spawned"), "{list}");
    programs.install();
    spawn(&scratch, &["--agent-id", "one"]).expect_code(0);
    scratch.run(BAILIWICK, &["ledger", "validate", "one"]).expect_code(0);
    assert!(!scratch.run(BAILIWICK, &["ledger", "list"]).out.contains("half"));
    spawn(&scratch, &["--agent-id", "one"]).expect_code(2);
}

#[test]
fn spawn_does_not_run_hooks_of_the_repository() {
    let scratch = repository();
    let hook = scratch.root().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let marker = scratch.place().join("fired");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    spawn(&scratch, &["--agent-id", "one"]).expect_code(0);
    assert!(!marker.exists(), "a hook ran");
    scratch.git(&["worktree", "add", "--quiet", "../plain"]);
    assert!(marker.exists(), "the control: plain git runs it");
}

#[test]
fn spawn_ignores_git_variables_in_the_environment() {
    let scratch = repository();
    let other = repository();
    let mut command = scratch.command(BAILIWICK);
    command.args(["spawn", "task.toml", "--agent-id", "one"]);
    command.env("GIT_DIR", other.root().join(".git")).env("GIT_WORK_TREE", other.root());
    assert!(command.output().unwrap().status.success());
    assert!(scratch.git(&["branch", "--list", "agent/one"]).contains("agent/one"));
    assert_eq!(other.git(&["branch", "--list", "agent/one"]), "");
}

/// A spawn that is killed at random moments and repeated always gives the same result.
#[test]
fn killed_spawn_is_completed_by_the_next() {
    let mut random = Random::rotating("killed spawns");
    let scratch = repository();
    for file in 0..200 {
        scratch.write(&format!("src/{file}.txt"), &"x".repeat(1000));
    }
    scratch.write(
        "task.toml",
        &TASK.replace("[body]", "[workspace]\nsetup = [\"echo ready > ready\"]\n[body]"),
    );
    scratch.commit("more");
    let (rounds, mut killed, mut attempts) = (Depth::from_env().cases(200), 0, 0);
    for round in 0..rounds {
        let id = format!("run-{round}");
        loop {
            attempts += 1;
            let mut command = scratch.command(BAILIWICK);
            command.args(["spawn", "task.toml", "--agent-id", &id]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.number() % 60));
            if attempts % 4 != 0 && child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
                killed += 1;
                continue;
            }
            let output = child.wait_with_output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            // The last attempt may have been killed after it was complete.
            let done = output.status.success()
                || message.contains(&format!("there is a run `{id}` already"));
            if done {
                break;
            }
            // A git process that outlives its killed parent keeps the lock until it ends.
            assert!(message.contains("is taken: another process"), "{message}");
            std::thread::sleep(Duration::from_millis(20));
        }
        scratch.run(BAILIWICK, &["ledger", "validate", &id]).expect_code(0);
        let worktree = scratch.state().join("worktrees").join(&id);
        let status = scratch.git(&["-C", worktree.to_str().unwrap(), "status", "--porcelain=v1"]);
        assert_eq!(status, "?? ready\n", "the worktree is complete");
    }
    assert!(killed > 0, "at least one spawn was killed");
    let listed = scratch.run(BAILIWICK, &["ledger", "list", "-o", "json"]).out;
    assert!(!listed.contains("\"half_spawned\": true"));
    figure(&format!(
        "spawn: {rounds} agents spawned through {killed} kills (SIGKILL), all complete"
    ));
}

/// The rules of an agent come from its base commit, even if its spawn was interrupted.
#[test]
fn interrupted_spawn_continues_only_on_its_own_base() {
    let scratch = Scratch::repository();
    let task = "[task]\nrole = \"developer\"\nagent-id = \"one\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
                [workspace]\nsetup = [\"program-of-setup\"]\n";
    let programs = Programs::beside(&scratch);
    let spawn = |more: &[&str]| programs.run(&scratch, &["spawn", "task.toml"], more);
    scratch.write("task.toml", task);
    scratch.commit("start");
    let base = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    spawn(&[]).expect_code(1);
    programs.install();
    let strict = "[role]\nname = \"developer\"\n[capabilities]\nrequired = [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"Read\"]\n";
    scratch.write(".bailiwick/roles/developer.toml", strict);
    scratch.commit("stricter");
    let ran = spawn(&[]).expect_code(2);
    assert!(ran.err.contains(&format!("--base {base}")), "{}", ran.err);
    spawn(&["--base", &base]).expect_code(0);
}
