//! The first steps of a new user: init, edit, lint, prepare, spawn, ledger tree.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use bailiwick_testkit::Scratch;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::BAILIWICK;

const TASK: &str = ".bailiwick/tasks/example.toml";

#[test]
fn each_first_step_works_and_names_the_next_step() {
    let scratch = Scratch::repository();
    scratch.write("package.json", "{\"scripts\": {\"test\": \"node --test\"}}\n");
    scratch.write("src/index.js", "");
    scratch.commit("start");

    let init = scratch.run(BAILIWICK, &["init"]).expect_code(0);
    assert!(init.out.contains("recognised npm (package.json)"), "{}", init.out);
    assert!(init.err.contains("next: edit .bailiwick/tasks/example.toml"), "{}", init.err);
    let task = scratch.read(TASK);
    assert!(task.contains("\"npm test\""), "the example fits the project: {task}");

    scratch.write(TASK, &task.replace("src/**", "lib/**"));
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    assert!(lint.out.contains("no problems"), "{}", lint.out);
    assert!(lint.err.contains("next: "), "{}", lint.err);
    assert!(lint.err.contains("is not committed"), "names the uncommitted file: {}", lint.err);
    assert!(lint.err.contains("and 9 more files"), "ten files are written: {}", lint.err);

    let before = scratch.git(&["status", "--porcelain=v1", "--untracked-files=all"]);
    let prepare = scratch.run(BAILIWICK, &["prepare", TASK]).expect_code(0);
    assert!(prepare.out.contains("- `lib/**`"), "the edit is in the prompt");
    assert!(prepare.err.contains("git commit"), "{}", prepare.err);
    assert!(prepare.err.contains("bailiwick run"), "{}", prepare.err);
    assert_eq!(before, scratch.git(&["status", "--porcelain=v1", "--untracked-files=all"]));
    assert!(std::fs::read_dir(scratch.state()).unwrap().next().is_none(), "prepare writes nothing");

    for early in
        [&["spawn", TASK][..], &["run", TASK], &["hooks", "install", "claude", "--task", TASK]]
    {
        let early = scratch.run(BAILIWICK, early).expect_code(1);
        assert!(early.err.contains("is not committed at HEAD"), "{}", early.err);
        assert!(early.err.contains("git add .bailiwick && git commit"), "{}", early.err);
        assert!(!early.err.contains("there is no role"), "{}", early.err);
    }

    scratch.commit("kit");
    let spawn = scratch.run(BAILIWICK, &["spawn", TASK]).expect_code(0);
    assert!(spawn.err.contains("next: bailiwick run ag-contributor-"), "{}", spawn.err);
    let tree = scratch.run(BAILIWICK, &["ledger", "tree"]).expect_code(0);
    assert!(
        tree.out.starts_with("ag-contributor-") && tree.out.contains("[ready]"),
        "{}",
        tree.out
    );
    assert!(tree.err.contains("next: bailiwick ledger show ag-contributor-"), "{}", tree.err);
    assert_eq!(scratch.git(&["status", "--porcelain=v1"]), "", "tasks/ hides itself from git");
}

#[test]
fn second_init_changes_nothing() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    scratch.run(BAILIWICK, &["init"]).expect_code(0);
    scratch.write(TASK, "mine\n");
    let again = scratch.run(BAILIWICK, &["init"]).expect_code(0);
    assert!(again.out.contains("0 new files, 10 kept"), "{}", again.out);
    assert_eq!(scratch.read(TASK), "mine\n");
}

#[test]
fn init_reports_recognised_tools_and_missing_programs() {
    let scratch = Scratch::repository();
    scratch.write(".gitignore", "node_modules/\n");
    scratch.write("web/package.json", "{\"scripts\": {\"test\": \"vitest run\"}}\n");
    scratch.write("web/pnpm-lock.yaml", "");
    scratch.write("web/src/a.ts", "");
    scratch.write("web/node_modules/x/Cargo.toml", "[package]\n");
    scratch.write("scripts/a.py", "");
    let mut command = scratch.command(BAILIWICK);
    let output = command.args(["init", "-o", "json"]).env("PATH", no_pnpm()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stack = serde_json::json!({
        "tool": "pnpm", "directory": "web", "evidence": "pnpm-lock.yaml",
        "missing_programs": ["pnpm"],
    });
    assert_eq!(report["stacks"], serde_json::json!([stack]), "ignored files do not count");
    assert_eq!(report["setup"][0], "cd web && pnpm install --frozen-lockfile");
    assert_eq!(report["commands"][0], "cd web && pnpm test");
    assert_eq!(report["notes"], serde_json::json!([]));
    let mut command = scratch.command(BAILIWICK);
    let output = command.arg("init").env("PATH", no_pnpm()).output().unwrap();
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("pnpm needs pnpm, not found on PATH"), "{notes}");
}

/// The directories of PATH without pnpm.
fn no_pnpm() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    let directories =
        std::env::split_paths(&path).filter(|directory| !directory.join("pnpm").exists());
    std::env::join_paths(directories).unwrap()
}

#[test]
fn init_dry_run_writes_nothing() {
    let scratch = Scratch::repository();
    let ran = scratch.run(BAILIWICK, &["init", "--dry-run"]).expect_code(0);
    assert!(ran.out.contains("would create  .bailiwick/README.md"), "{}", ran.out);
    assert!(!scratch.root().join(".bailiwick").exists());
}

#[test]
fn all_task_examples_can_be_prepared() {
    let scratch = Scratch::repository();
    scratch.run(BAILIWICK, &["init"]).expect_code(0);
    for (agent, role, subagent) in [
        ("code-implementer", "edit-local", "code-implementer"),
        ("critic", "read-only", "critic"),
        ("architect", "read-only", "architect"),
        ("security-auditor", "read-only", "security-auditor"),
        ("validator", "read-only", "validator"),
    ] {
        let task = format!(".bailiwick/tasks/agents/{agent}.toml");
        let ran = scratch.run(BAILIWICK, &["prepare", &task, "-o", "json"]).expect_code(0);
        let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            (value["role"].as_str(), value["subagent_type"].as_str()),
            (Some(role), Some(subagent))
        );
    }
}

#[test]
fn error_outside_a_repository_suggests_git_init() {
    let scratch = Scratch::bare();
    for arguments in [&["init"][..], &["spawn", "task.toml"]] {
        let ran = scratch.run(BAILIWICK, arguments).expect_code(1);
        assert!(
            ran.err.contains("not in a git repository") && ran.err.contains("git init"),
            "{}",
            ran.err
        );
    }
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    scratch.run(BAILIWICK, &["roles", "list"]).expect_code(0);
}

#[test]
fn demo_runs_on_embedded_defaults_and_leaves_no_files() {
    let scratch = Scratch::bare();
    let temporary = scratch.place().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = scratch.command(BAILIWICK);
    let output = command.arg("demo").env("TMPDIR", &temporary).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{err}");
    for part in [
        "## Git for reading only",
        "farewell allows Write lib/farewell.sh",
        "rogue denies Bash git push origin main",
        "`rogue` was denied 8 calls",
        "git: no",
        "files outside: no",
        "other agents: no",
        "network: no",
        "landed    farewell",
        "greet: not found",
        "rejected  rename",
        "rejected  rogue",
        "farewell [merged]",
        "bailiwick run .bailiwick/tasks/example.toml",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for bad in ["COMMITTED", "ESCAPED", "SEEN", "ONLINE"] {
        assert!(!text.contains(bad), "{bad} is in\n{text}");
    }
    assert!(!Path::new("/etc/bailiwick-demo").exists());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "no file is left");
    assert_eq!(
        std::fs::read_dir(scratch.state()).unwrap().count(),
        0,
        "the state directory is not used"
    );
    assert_eq!(std::fs::read_dir(scratch.place().join("home")).unwrap().count(), 0);
}

/// In a hook or `git rebase --exec`, git's variables name the person's own repository.
#[test]
fn demo_does_not_change_the_repository_in_git_dir() {
    let scratch = Scratch::repository();
    scratch.commit("mine");
    let before = scratch.git(&["rev-parse", "HEAD"]);
    let mut command = scratch.command(BAILIWICK);
    let output = command.arg("demo").env("GIT_DIR", scratch.root().join(".git")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(scratch.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(scratch.git(&["status", "--porcelain=v1"]), "");
}

/// As with Ctrl-C, the signal reaches only the demo, because its agents are in another process group.
#[test]
fn interrupted_demo_ends_its_agents_and_removes_its_directory() {
    let scratch = Scratch::bare();
    let temporary = scratch.place().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = scratch.command(BAILIWICK);
    let mut demo = command
        .arg("demo")
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("allows") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "an agent started");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1, "the demo has a directory");
    assert!(!processes_with(&temporary).is_empty(), "the demo's agents are running");
    let pid = Pid::from_raw(demo.id().cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    let ended = demo.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert_eq!(
        err.trim(),
        "interrupted: the demo's agents were stopped and its directory was removed"
    );
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "no file is left");
    assert_eq!(processes_with(&temporary), Vec::<String>::new());
}

/// The command lines of processes that name a directory.
fn processes_with(directory: &Path) -> Vec<String> {
    let name = directory.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(name)).collect()
}
