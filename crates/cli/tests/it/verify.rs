//! `verify` as people use it: the agent's work is checked on its own tree and merged onto the current base.

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::{BAILIWICK, KEI_AGENT_RUNTIME, KEI_CAPABILITY};

/// A repository with its own role and a task, in which agents can be spawned.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
}

const ROLE: &str = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = [CAPABILITIES]\n[tools]\nallowed = [\"*\"]\n";

impl Place {
    /// A repository with these files, whose role has these capabilities.
    pub(crate) fn new(capabilities: &[&str], task: &str, files: &[(&str, &str)]) -> Self {
        let scratch = Scratch::repository();
        let list: Vec<String> = capabilities.iter().map(|name| format!("{name:?}")).collect();
        scratch
            .write(".bailiwick/roles/worker.toml", &ROLE.replace("CAPABILITIES", &list.join(", ")));
        scratch.write("task.toml", &format!("[task]\nrole = \"worker\"\n{task}"));
        for (path, text) in files {
            scratch.write(path, text);
        }
        scratch.commit("start");
        Self { scratch }
    }

    pub(crate) fn spawn(self, id: &str) -> Self {
        self.bailiwick(&["spawn", "task.toml", "--agent-id", id]).expect_code(0);
        self
    }

    pub(crate) fn bailiwick(&self, arguments: &[&str]) -> Ran {
        self.run(BAILIWICK, arguments)
    }

    /// Runs a program with the toolchains of the person who runs the tests.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        let mut command = self.scratch.command(program);
        toolchains(&mut command);
        Ran::from(command.args(arguments).output().unwrap())
    }

    /// Writes a file in the agent's worktree.
    pub(crate) fn work(&self, id: &str, path: &str, text: &str) {
        let file = self.worktree(id).join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn worktree(&self, id: &str) -> std::path::PathBuf {
        self.scratch.state().join("worktrees").join(id)
    }

    pub(crate) fn verify(&self, id: &str, more: &[&str]) -> Verified {
        let ran = self.bailiwick(&[&["verify", id, "-o", "json"], more].concat());
        let json = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        Verified { ran, json }
    }
}

/// Lets a program with another HOME find cargo and rustc.
pub(crate) fn toolchains(command: &mut std::process::Command) {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let directory = std::env::var_os(name).map_or_else(|| home.join(below), Into::into);
        command.env(name, directory);
    }
}

/// The result of a verification.
pub(crate) struct Verified {
    pub(crate) ran: Ran,
    pub(crate) json: Value,
}

impl Verified {
    /// The reason why a capability failed in a pass, or `None` if it passed.
    #[track_caller]
    pub(crate) fn failure(&self, capability: &str, pass: &str) -> Option<String> {
        let failed = self.json["failed"].as_array();
        let failed = failed.unwrap_or_else(|| panic!("{}\n{}", self.ran.out, self.ran.err));
        let found = failed.iter().find(|f| f["capability"] == capability && f["pass"] == pass)?;
        Some(format!("{} {}", found["reason"].as_str()?, found["detail"].as_str().unwrap_or("")))
    }

    pub(crate) fn passed(&self, capability: &str, pass: &str) -> bool {
        let passed = self.json["passed"].as_array();
        let is = |p: &Value| p["capability"] == capability && p["pass"] == pass;
        passed.is_some_and(|passed| passed.iter().any(is))
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.ran.code, code, "{}\n{}", self.ran.out, self.ran.err);
        self
    }
}

const WORKTREE: &str = "worktree";
const MERGED: &str = "simulated-merge";
const COMMANDS: &str = "quality::commands-green";
const WHITELIST: &str = "scope::files-whitelist";

#[test]
fn each_verdict_and_reason_is_printed_once_without_a_terminal() {
    let task = "[verification]\ncommands = [\"test ! -e src/bad\"]\n[body]\ntext = \"go\"\n";
    let place = Place::new(&[WHITELIST, COMMANDS], task, &[("src/a", "a\n")]).spawn("one");
    let count = |text: &str, parts: [&str; 2]| {
        text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    };
    place.work("one", "src/bad", "x\n");
    let ran = place.bailiwick(&["verify", "one"]).expect_code(2);
    let output = ran.out + &ran.err;
    for capability in [WHITELIST, COMMANDS] {
        assert_eq!(count(&output, [capability, "FAIL"]), 1, "{output}");
    }
    assert_eq!(count(&output, ["", "exited with 1"]), 1, "{output}");
    assert!(output.contains("2 of 2 checks failed"), "{output}");
    assert!(!output.contains("fails"), "{output}");
}

/// Regression: the simulated merge was never called, so a change that merges cleanly but no longer
/// compiles passed in all modes.
#[test]
fn work_that_compiles_only_without_the_merge_is_rejected() {
    let place = Place::new(
        &["quality::cargo-check-green"],
        "[body]\ntext = \"call it\"\n",
        &[
            ("Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\n"),
            ("src/lib.rs", "pub mod area;\n\n\n\n\n\n\npub mod other;\n"),
            ("src/area.rs", "pub fn area(side: u32) -> u32 { side * side }\n"),
            ("src/other.rs", "\n"),
        ],
    )
    .spawn("one");
    place.work("one", "src/other.rs", "pub fn double() -> u32 { 2 * crate::area::area(3) }\n");
    let check = "quality::cargo-check-green";
    let alone = place.verify("one", &[]).code(0);
    assert!(alone.passed(check, WORKTREE) && alone.passed(check, MERGED), "the control");
    place.scratch.write("src/area.rs", "pub fn area(a: u32, b: u32) -> u32 { a * b }\n");
    place.scratch.commit("two sides");
    let merged = place.verify("one", &[]).code(2);
    assert!(merged.passed(check, WORKTREE), "{}", merged.ran.out);
    let message = merged.failure(check, MERGED).unwrap();
    assert!(message.contains("E0061") || message.contains("arguments"), "{message}");
    place.verify("one", &["--mode", "worktree"]).code(0);
    place.verify("one", &["--mode", "simulated-merge"]).code(2);
    let land = place.bailiwick(&["land", "one"]).expect_code(2);
    assert!(land.out.contains(check), "{}{}", land.out, land.err);
}

#[test]
fn test_that_fails_only_after_the_merge_is_reported() {
    let place = Place::new(
        &["quality::tests-green"],
        "[verification]\ntest-count-min = 1\n[body]\ntext = \"test it\"\n",
        &[
            ("Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\n"),
            ("src/lib.rs", "pub fn limit() -> u32 { 10 }\n"),
        ],
    )
    .spawn("one");
    let test = "#[test]\nfn ten() { assert_eq!(demo::limit(), 10); }\n";
    place.work("one", "tests/limit.rs", test);
    let tests = "quality::tests-green";
    place.verify("one", &[]).code(0);
    place.scratch.write("src/lib.rs", "pub fn limit() -> u32 { 11 }\n");
    place.scratch.commit("eleven");
    let merged = place.verify("one", &[]).code(2);
    assert!(merged.passed(tests, WORKTREE));
    assert!(merged.failure(tests, MERGED).unwrap().contains("ten"), "{}", merged.ran.out);
}

/// Regression: untracked files were missed, changes of the base branch failed the agent's checks, and the base
/// branch's name was hard-coded.
#[test]
fn scope_check_sees_untracked_files_but_not_base_changes() {
    let place = Place::new(
        &[WHITELIST, COMMANDS],
        "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"test -f src/a.txt\"]\n",
        &[("src/a.txt", "a\n"), ("docs/b.txt", "b\n"), (".gitignore", "*.log\n")],
    );
    place.scratch.git(&["branch", "-m", "main", "trunk"]);
    let place = place.spawn("one");
    place.work("one", "src/new.txt", "n\n");
    place.work("one", "noise.log", "ignored\n");
    place.scratch.write("docs/b.txt", "changed on the base\n");
    place.scratch.write("docs/c.txt", "added on the base\n");
    place.scratch.commit("meanwhile");
    let accepted = place.verify("one", &[]).code(0);
    assert_eq!(accepted.json["base_branch"], "refs/heads/trunk");
    place.work("one", "docs/untracked.txt", "u\n");
    let outside = place.verify("one", &[]).code(2);
    let message = outside.failure(WHITELIST, WORKTREE).unwrap();
    assert!(message.contains("docs/untracked.txt") && !message.contains("docs/c.txt"), "{message}");
    assert!(
        outside.failure(WHITELIST, MERGED).is_none(),
        "the failure is not repeated: {}",
        outside.ran.out
    );
    assert!(outside.passed(COMMANDS, MERGED), "other checks still run on the merge");
}

#[test]
fn work_that_empties_a_test_lands_only_if_the_task_allows_it() {
    let capability = "quality::tests-kept";
    let (test, hollow) = ("def test_a():\n    assert f() == 1\n", "def test_a():\n    pass\n");
    for (allowance, code) in [("", 2), ("[verification]\ntest-changes = \"allowed\"\n", 0)] {
        let task = format!("{allowance}[body]\ntext = \"go\"\n");
        let place = Place::new(&[capability], &task, &[("test_a.py", test)]).spawn("one");
        place.work("one", "a.py", "A = 1\n");
        place.verify("one", &[]).code(0);
        place.work("one", "test_a.py", hollow);
        let verified = place.verify("one", &[]).code(code);
        assert_eq!(verified.failure(capability, WORKTREE).is_some(), code == 2);
        let ran = place.bailiwick(&["land", "one"]).expect_code(code);
        let output = ran.out + &ran.err;
        assert!(
            output.contains("`test_a.py`: the test `test_a` no longer checks anything"),
            "{output}"
        );
        let landed = if code == 0 { hollow } else { test };
        assert_eq!(place.scratch.git(&["show", "main:test_a.py"]), landed);
    }
}

/// Regression: capabilities without code passed silently; a worktree that does not exist passed most
/// checks; a forked capability could not be used.
#[test]
fn check_that_cannot_run_does_not_pass() {
    let place = Place::new(
        &["policy::no-git-ops", WHITELIST, COMMANDS],
        "[scope]\nfiles-whitelist = [\"**\"]\n[verification]\ncommands = [\"true\"]\n",
        &[("a.txt", "a\n")],
    )
    .spawn("one");
    place.verify("one", &[]).code(0);
    let task = "tasks/one/task.toml";
    let missing = place.run(KEI_AGENT_RUNTIME, &["verify", task, "--worktree", "/nowhere"]);
    let missing = missing.expect_code(2);
    let json: Value = serde_json::from_str(&missing.out).unwrap();
    assert_eq!(json["passed"].as_array().map(Vec::len), Some(0), "{}", missing.out);
    assert_eq!(json["failed"].as_array().map(Vec::len), Some(3), "{}", missing.out);
    let gate_only = place.kei_capability("tools::deny-tools", &[]).expect_code(0);
    assert!(gate_only.err.contains("tools::deny-tools has no check"), "{}", gate_only.err);
    let unknown = place.kei_capability("quality::nothing", &[]).expect_code(2);
    assert!(unknown.err.contains("FAIL quality::nothing: "), "{}", unknown.err);
}

#[test]
fn forked_capability_is_checked_like_the_original() {
    let place = Place::new(&[], "", &[("a.txt", "a\n")]);
    let fork = ["fork", "quality::commands-green", "--as", "quality::our-commands"];
    place.run(BAILIWICK, &[&["capabilities"], &fork[..]].concat()).expect_code(0);
    let role = ROLE.replace("CAPABILITIES", "\"quality::our-commands\"");
    place.scratch.write(".bailiwick/roles/worker.toml", &role);
    let task = "[task]\nrole = \"worker\"\n[verification]\ncommands = [\"test -f b.txt\"]\n";
    place.scratch.write("task.toml", task);
    place.scratch.commit("a capability of our own");
    let place = place.spawn("one");
    let failed = place.verify("one", &[]).code(2);
    assert!(failed.failure("quality::our-commands", WORKTREE).is_some());
    place.work("one", "b.txt", "b\n");
    place.verify("one", &[]).code(0);
}

impl Place {
    fn kei_capability(&self, name: &str, more: &[(&str, &str)]) -> Ran {
        let mut command = self.scratch.command(KEI_CAPABILITY);
        toolchains(&mut command);
        let worktree = self.worktree("one");
        command
            .env("AGENT_ID", "one")
            .env("TASK_TOML", self.scratch.root().join("tasks/one/task.toml"))
            .env("WORKTREE_PATH", worktree)
            .env("MAIN_REPO", self.scratch.root())
            .env("RUN_MODE", "both")
            .envs(more.iter().copied())
            .current_dir("/");
        Ran::from(command.args(["verify", name]).output().unwrap())
    }
}

#[test]
fn kei_capability_reads_its_parameters_from_the_environment() {
    let place = Place::new(
        &[WHITELIST, COMMANDS],
        "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"test ! -f base.txt\"]\n",
        &[("src/a.txt", "a\n")],
    )
    .spawn("one");
    place.work("one", "src/b.txt", "b\n");
    assert_eq!(place.kei_capability(WHITELIST, &[]).expect_code(0).err, "");
    place.scratch.write("base.txt", "now it is there\n");
    place.scratch.commit("meanwhile");
    place.kei_capability(COMMANDS, &[("RUN_MODE", "worktree")]).expect_code(0);
    let merged = place.kei_capability(COMMANDS, &[("RUN_MODE", "simulated-merge")]).expect_code(2);
    assert!(merged.err.starts_with("FAIL quality::commands-green: "), "{}", merged.err);
    place.kei_capability(COMMANDS, &[]).expect_code(2);
    place.kei_capability(COMMANDS, &[("RUN_MODE", "whatever")]).expect_code(2);
    place.kei_capability(COMMANDS, &[("TASK_TOML", "")]).expect_code(1);
    place.kei_capability(COMMANDS, &[("WORKTREE_PATH", "/nowhere")]).expect_code(2);
    place.kei_capability(COMMANDS, &[("MAIN_REPO", "/")]).expect_code(1);
}

/// The result of the same tree with the same parameters is reused, and marked as reused.
#[test]
fn unchanged_tree_is_not_checked_again() {
    let place =
        Place::new(&[COMMANDS], "[verification]\ncommands = [\"date +%N\"]\n", &[("a.txt", "a\n")])
            .spawn("one");
    place.work("one", "b.txt", "b\n");
    let reused = |verified: &Verified| -> Vec<bool> {
        let passed = verified.json["passed"].as_array().unwrap();
        passed.iter().map(|entry| entry["reused"].as_bool().unwrap()).collect()
    };
    let first = place.verify("one", &[]).code(0);
    assert_eq!(
        reused(&first),
        [false, true],
        "the base did not move, so the merge is the same tree"
    );
    assert_eq!(reused(&place.verify("one", &[]).code(0)), [true, true]);
    assert_eq!(reused(&place.verify("one", &["--fresh"]).code(0)), [false, true]);
    place.work("one", "b.txt", "other\n");
    assert_eq!(reused(&place.verify("one", &[]).code(0)), [false, true]);
}

/// A task that copies untracked files from the checkout, as JavaScript projects do.
#[test]
fn checks_are_not_repeated_between_verify_and_land() {
    let place = Place::new(
        &[COMMANDS],
        "[verification]\ncommands = [\"test -f node_modules/lib.js\"]\n[workspace]\ncopy = \
         [\"node_modules\"]\n",
        &[("a.txt", "a\n"), (".gitignore", "node_modules\ntasks\n")],
    );
    place.scratch.write("node_modules/lib.js", "one\n");
    let place = place.spawn("one");
    place.work("one", "b.txt", "b\n");
    let reused = |json: &Value| -> Vec<bool> {
        let passed = json["passed"].as_array().unwrap();
        passed.iter().map(|entry| entry["reused"].as_bool().unwrap()).collect()
    };
    assert_eq!(reused(&place.verify("one", &[]).code(0).json), [false, true]);
    place.bailiwick(&["land", "one"]).expect_code(0);
    let shown = place.bailiwick(&["ledger", "show", "one", "-o", "json"]).expect_code(0);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let events = shown["events"].as_array().unwrap();
    let landing = events.iter().rev().find(|event| event["kind"] == "verified").unwrap();
    let landing: Value = serde_json::from_str(landing["detail"].as_str().unwrap()).unwrap();
    assert_eq!(reused(&landing), [true, true], "landing does not run checks again");
    // Other copied files make it another check.
    let place = place.spawn("two");
    place.work("two", "c.txt", "c\n");
    place.verify("two", &[]).code(0);
    place.scratch.write("node_modules/lib.js", "two\n");
    assert_eq!(reused(&place.verify("two", &[]).code(0).json), [false, true]);
}

#[test]
fn conflicts_are_reported_file_by_file() {
    let place = Place::new(
        &[COMMANDS],
        "[verification]\ncommands = [\"true\"]\n",
        &[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")],
    )
    .spawn("one");
    for path in ["a.txt", "b.txt", "c.txt"] {
        place.work("one", path, "mine\n");
    }
    place.scratch.write("a.txt", "theirs\n");
    std::fs::remove_file(place.scratch.root().join("b.txt")).unwrap();
    place.scratch.commit("meanwhile");
    let verified = place.verify("one", &[]).code(2);
    let message = verified.failure("bailiwick::trial-merge", MERGED).unwrap();
    assert!(message.contains("a.txt: ") && message.contains("b.txt: "), "{message}");
    assert!(!message.contains("c.txt"), "{message}");
    assert!(verified.passed(COMMANDS, WORKTREE));
}

/// Commands of a check cannot reach the network or write outside of their own directories, and
/// the agent's worktree does not change.
#[test]
fn checks_run_in_a_sandbox() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("written");
    let commands = format!(
        "commands = [\"! bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'\", \"! sh -c 'echo x > {}'\", \
         \"test -z \\\"$SECRET_TOKEN\\\"\", \"echo made > generated.txt\"]",
        file.display()
    );
    let place =
        Place::new(&[COMMANDS], &format!("[verification]\n{commands}\n"), &[("a.txt", "a\n")])
            .spawn("one");
    let script = format!("echo x > /dev/tcp/127.0.0.1/{port} && echo x > {}", file.display());
    let control = std::process::Command::new("bash").args(["-c", &script]).status().unwrap();
    assert!(control.success(), "the control");
    std::fs::remove_file(&file).unwrap();
    let mut command = place.scratch.command(BAILIWICK);
    command.env("SECRET_TOKEN", "s3cret").args(["verify", "one"]);
    let ran = Ran::from(command.output().unwrap()).expect_code(0);
    assert!(ran.out.contains("all checks passed"), "{}", ran.out);
    assert!(!file.exists());
    assert!(!place.worktree("one").join("generated.txt").exists());
    let repositories = std::fs::read_dir(place.scratch.state().join("caches")).unwrap();
    for repository in repositories.flatten() {
        for slot in std::fs::read_dir(repository.path().join("slots")).unwrap().flatten() {
            let tree = slot.path().join("tree");
            let empty = std::fs::read_dir(&tree).map(|mut list| list.next().is_none());
            assert!(empty.unwrap_or(true), "{} is left behind", tree.display());
        }
    }
}

#[test]
fn task_that_changed_after_the_spawn_is_refused() {
    let place =
        Place::new(&[WHITELIST], "[scope]\nfiles-whitelist = [\"src/**\"]\n", &[("a", "a\n")])
            .spawn("one");
    place.work("one", "elsewhere.txt", "x\n");
    place.run(KEI_AGENT_RUNTIME, &["verify", "tasks/one/task.toml"]).expect_code(2);
    let task = place.scratch.read("tasks/one/task.toml").replace("src/**", "**");
    place.scratch.write("tasks/one/task.toml", &task);
    let refused = place.run(KEI_AGENT_RUNTIME, &["verify", "tasks/one/task.toml"]).expect_code(1);
    assert!(refused.err.contains("differs from the one"), "{}", refused.err);
    place.verify("one", &[]).code(2);
}

#[test]
fn verification_reads_the_role_from_the_base_commit() {
    let place =
        Place::new(&[WHITELIST], "[scope]\nfiles-whitelist = [\"src/**\"]\n", &[("a", "a\n")])
            .spawn("one");
    let loose = ROLE.replace("CAPABILITIES", "\"quality::commands-green\"");
    place.work("one", ".bailiwick/roles/worker.toml", &loose);
    place.scratch.write(".bailiwick/roles/worker.toml", &loose);
    let verified = place.verify("one", &[]).code(2);
    assert!(verified.failure(WHITELIST, WORKTREE).unwrap().contains(".bailiwick"));
}

#[test]
fn commits_of_the_agent_since_the_spawn_are_detected() {
    let no_git = "policy::no-git-ops";
    let place = Place::new(&[no_git], "[body]\ntext = \"x\"\n", &[("a", "a\n")]).spawn("one");
    place.verify("one", &[]).code(0);
    // A person commits at the same time.
    place.scratch.write("b", "b\n");
    place.scratch.commit("by a person");
    place.scratch.git(&["branch", "a-person-s"]);
    place.verify("one", &[]).code(0);
    place.work("one", "c", "c\n");
    let worktree = place.worktree("one");
    let worktree = worktree.to_str().unwrap();
    place.scratch.git(&["-C", worktree, "add", "c"]);
    place.scratch.git(&["-C", worktree, "commit", "-q", "-m", "by the agent"]);
    let committed = place.verify("one", &[]).code(2);
    assert!(committed.failure(no_git, WORKTREE).is_some(), "{}", committed.ran.out);
}

/// Files that `prefetch` downloads, for the tree before the agent's changes, are available to its checks.
#[test]
fn prefetched_files_are_available_to_checks() {
    let place = Place::new(
        &[COMMANDS],
        "[verification]\ncommands = [\"test -f $CARGO_HOME/registry/mark\", \"test -f new.txt\"]\n\
         [workspace]\nprefetch = [\"test ! -f new.txt && mkdir -p $CARGO_HOME/registry && echo x > \
         $CARGO_HOME/registry/mark\"]\n",
        &[("a.txt", "a\n")],
    )
    .spawn("one");
    place.work("one", "new.txt", "n\n");
    let fetched = place.verify("one", &[]).code(0);
    assert!(fetched.passed(COMMANDS, WORKTREE) && fetched.passed(COMMANDS, MERGED));
    place.scratch.write("b.txt", "b\n");
    place.scratch.commit("meanwhile");
    place.verify("one", &["--fresh"]).code(0);
}

/// The test cases are in a file without tests, so only running them shows how many there are.
#[test]
fn work_that_executes_fewer_tests_lands_only_if_the_task_allows_it() {
    let capability = "quality::tests-kept";
    let (cases, fewer) = ("CASES = [1, 2, 3]\n", "CASES = [1]\n");
    let test = "import unittest, cases\nclass T(unittest.TestCase): pass\nfor n in cases.CASES:\n    \
                setattr(T, f'test_{n}', lambda self: self.assertTrue(True))\n";
    for (allowance, code) in [("", 2), ("test-changes = \"allowed\"\n", 0)] {
        let command = "/usr/bin/python3 -m unittest test_a";
        let task =
            format!("[verification]\ncommands = [{command:?}]\n{allowance}[body]\ntext = \"go\"\n");
        let files = [("cases.py", cases), ("test_a.py", test)];
        let place = Place::new(&[COMMANDS, capability], &task, &files).spawn("one");
        place.work("one", "other.py", "A = 1\n");
        let same = place.verify("one", &[]).code(0);
        let counted = format!("`{command}` executed 3 tests, 3 on the base");
        assert!(same.ran.out.contains(&counted), "{}", same.ran.out);
        place.work("one", "cases.py", fewer);
        let verified = place.verify("one", &[]).code(code);
        assert!(verified.passed(COMMANDS, WORKTREE), "the control: its tests pass");
        let counted = format!("`{command}` executed 1 test, 3 on the base");
        assert!(verified.ran.out.contains(&counted), "{}", verified.ran.out);
        let landed = place.bailiwick(&["land", "one"]).expect_code(code);
        assert!((landed.out + &landed.err).contains(&counted));
        let now = if code == 0 { fewer } else { cases };
        assert_eq!(place.scratch.git(&["show", "main:cases.py"]), now);
    }
}
