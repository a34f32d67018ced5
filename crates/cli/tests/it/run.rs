//! `bailiwick run` and related commands, with scripted agents in the full sandbox.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::{BAILIWICK, KEI_AGENT_RUNTIME};

const ROLE: &str = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"policy::git-read-only\", \"scope::files-whitelist\", \
                    \"quality::commands-green\"]\n[tools]\nallowed = [\"*\"]\n";

/// A repository whose only role may write below `src/`, with a task of these steps.
pub(crate) fn scene(steps: &[&str]) -> Scratch {
    scene_with(ROLE, "", steps)
}

fn scene_with(role: &str, more: &str, steps: &[&str]) -> Scratch {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/helper.toml", role);
    scratch.write("src/a.txt", "a\n");
    scratch.write("task.toml", &task(more, steps));
    scratch.commit("start");
    scratch
}

fn task(more: &str, steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("[[agent.script]]\n{step}\n")).collect();
    format!(
        "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands \
         = [\"true\"]\n{more}\n[body]\ntext = \"do it\"\n[agent]\ncli = \"script\"\n{steps}"
    )
}

pub(crate) fn shell(command: &str) -> String {
    format!("do = \"shell\"\ncommand = {command:?}")
}

pub(crate) fn write(path: &str, text: &str) -> String {
    format!("do = \"write\"\npath = {path:?}\ntext = {text:?}")
}

pub(crate) fn run(scratch: &Scratch, arguments: &[&str]) -> Ran {
    scratch.run(BAILIWICK, arguments)
}

pub(crate) fn events(scratch: &Scratch, agent: &str) -> Vec<Value> {
    let logs = run(scratch, &["logs", agent, "-o", "json"]).expect_code(0);
    logs.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn kinds(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// Starts `bailiwick run` and waits until its agent has printed `mark`.
pub(crate) fn started(scratch: &Scratch, agent: &str, mark: &str, arguments: &[&str]) -> Child {
    // Child processes inherit ignored signals, and the parent of the tests may ignore interrupts.
    let mut command = scratch.command("env");
    command.args(["--default-signal=INT,TERM", BAILIWICK]);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for(|| {
        let logs = run(scratch, &["logs", agent, "-o", "json"]);
        logs.code == 0 && logs.out.contains(mark)
    });
    child
}

/// Waits until the condition is true; the timeout is generous, because machines can be slow.
#[track_caller]
pub(crate) fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a process of this agent is running: each has the agent's private home in its environment.
pub(crate) fn is_alive(scratch: &Scratch, agent: &str) -> bool {
    let mark = format!("HOME={}", scratch.state().join("runs").join(agent).join("home").display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("environ")).ok())
        .any(|text| text.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()))
}

#[test]
fn task_with_denied_calls_is_checked_and_lands() {
    let (good, push) = (write("src/new.txt", "new\n"), shell("git push origin main"));
    let outside = write("outside.txt", "no\n");
    let scratch = scene(&[&good, &push, &outside]);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one", "--land", "auto"]);
    let ran = ran.expect_code(0);
    assert!(ran.out.contains("landed    one"), "{}", ran.out);
    assert_eq!(scratch.read("src/new.txt"), "new\n", "the checkout has what landed");
    assert!(!scratch.root().join("outside.txt").exists());
    let events = events(&scratch, "one");
    let answers: Vec<Value> =
        kinds(&events, "decision").iter().map(|event| event["answer"].clone()).collect();
    assert_eq!(answers, ["allow", "deny", "deny"]);
    assert_eq!(kinds(&events, "announced").len(), 1);
    let changed = kinds(&events, "file-change");
    assert!(changed.iter().any(|event| event["path"] == "src/new.txt"), "{changed:?}");
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let shown = run(&scratch, &["ledger", "show", "one"]).expect_code(0).out;
    let (_, history) = shown.split_once("  events\n").unwrap();
    assert!(history.contains("denies Bash git push origin main"), "{history}");
    assert!(history.contains("landed "), "{history}");
    assert!(!history.contains('{'), "JSON is printed only with -o json: {history}");
    assert!(!is_alive(&scratch, "one"));
}

#[test]
fn run_does_not_land_work_that_fails_a_check() {
    let scratch = scene_with(ROLE, "", &[&write("src/new.txt", "new\n")]);
    let text = scratch.read("task.toml").replace("[\"true\"]", "[\"test ! -e src/new.txt\"]");
    scratch.write("task.toml", &text);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one", "--land", "auto"]);
    let ran = ran.expect_code(2);
    assert!(ran.out.contains("FAIL  quality::commands-green"), "{}", ran.out);
    assert!(!scratch.root().join("src/new.txt").exists());
}

#[test]
fn agent_commits_have_the_person_as_author() {
    let role = ROLE.replace("\"policy::git-read-only\", ", "");
    // The settings of another repository apply there.
    let script = "cd \"$(mktemp -d)\" && git init -q . && git config user.name Own && git config \
               author.name Own && git config author.email own@example.org && git commit -q \
               --allow-empty -m own && git log -1 --format='%an <%ae>, %cn'\n";
    let steps = [
        write("src/own.sh", script),
        shell("sh src/own.sh > src/own.txt"),
        shell("git add src && git commit -qm Mine"),
    ];
    let scratch = scene_with(&role, "", &[&steps[0], &steps[1], &steps[2]]);
    let settings = "[user]\nname = A Person\nemail = person@example.org\n[author]\nname = Ada \
                    Example\nemail = ada@example.org\n";
    std::fs::write(scratch.place().join("home/.gitconfig"), settings).unwrap();
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--land", "auto"]).expect_code(0);
    let commits = scratch.git(&["log", "--format=%s: %an <%ae>, %cn", "main"]);
    assert!(commits.contains("Mine: Ada Example <ada@example.org>, A Person"), "{commits}");
    assert_eq!(scratch.git(&["show", "main:src/own.txt"]), "Own <own@example.org>, Own\n");
}

#[test]
fn sandbox_stops_what_the_gate_cannot_see() {
    let script = "git commit --quiet --allow-empty -m mine && echo COMMITTED\n\
                  echo x > /usr/escaped && echo ESCAPED\ncat /proc/1/environ\nenv\n";
    let scratch = scene(&[&write("src/try.sh", script), &shell("sh src/try.sh; true")]);
    let head = scratch.git(&["rev-parse", "refs/heads/main"]);
    let mut command = scratch.command(BAILIWICK);
    command.args(["run", "task.toml", "--agent-id", "one"]).env("MY_SECRET", "hunter2-hunter2");
    let ran = Ran::from(command.output().unwrap()).expect_code(0);
    let events = events(&scratch, "one");
    let printed = kinds(&events, "tool-result").last().unwrap()["output"].to_string();
    assert!(
        printed.contains("Read-only file system"),
        "the script ran, and the sandbox stopped it: {printed}"
    );
    for bad in ["COMMITTED", "ESCAPED", "hunter2-hunter2"] {
        assert!(!printed.contains(bad), "{bad}: {printed}\n{}", ran.err);
    }
    assert_eq!(scratch.git(&["rev-parse", "refs/heads/main"]), head);
}

#[test]
fn granted_secrets_reach_the_agent_and_are_never_recorded() {
    let steps = [shell("echo $GRANTED > src/seen.txt; echo it is $GRANTED")];
    let scratch = scene_with(ROLE, "", &[&steps[0]]);
    let text = scratch.read("task.toml").replace("cli =", "secrets = [\"GRANTED\"]\ncli =");
    scratch.write("task.toml", &text);
    let missing = run(&scratch, &["run", "task.toml", "--agent-id", "none"]).expect_code(1);
    assert!(missing.err.contains("GRANTED, which is not set"), "{}", missing.err);
    let mut command = scratch.command(BAILIWICK);
    command.args(["run", "task.toml", "--agent-id", "one"]).env("GRANTED", "correct-horse-battery");
    let ran = Ran::from(command.output().unwrap()).expect_code(0);
    let file = scratch.state().join("worktrees/one/src/seen.txt");
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        "correct-horse-battery\n",
        "the agent has the secret"
    );
    let logs = run(&scratch, &["logs", "one", "-o", "json"]).out;
    assert!(logs.contains("[secret]"), "{logs}");
    for text in [&logs, &ran.out, &ran.err] {
        assert!(!text.contains("correct-horse-battery"), "{text}");
    }
    let database = std::fs::read(scratch.state().join("bailiwick.db")).unwrap();
    let database = String::from_utf8_lossy(&database);
    assert!(!database.contains("correct-horse-battery"), "the secret is not in the database");
}

#[test]
fn tool_call_budget_is_enforced_and_can_be_raised() {
    let steps: Vec<String> = (0..5).map(|n| write(&format!("src/{n}.txt"), "x\n")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let scratch = scene_with(ROLE, "[budget]\ntool-calls = 3", &steps);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one"]).expect_code(1);
    assert!(ran.out.contains("budget-exhausted"), "{}", ran.out);
    let worktree = scratch.state().join("worktrees/one/src");
    assert!(worktree.join("2.txt").exists() && !worktree.join("3.txt").exists());
    let limits = kinds(&events(&scratch, "one"), "limit");
    assert!(limits.iter().any(|event| event["spent"] == true), "{limits:?}");
    let more = ["resume", "one", "--tool-calls", "100"];
    run(&scratch, &more).expect_code(0);
    assert!(worktree.join("4.txt").exists(), "the run continues after a person raised the limit");
    let cost: Value =
        serde_json::from_str(&run(&scratch, &["cost", "one", "-o", "json"]).out).unwrap();
    let attempts = cost.as_array().unwrap();
    assert_eq!(attempts.len(), 2, "two attempts");
    let duration = |attempt: &Value| {
        attempt["ended_at"].as_u64().unwrap() - attempt["started_at"].as_u64().unwrap()
    };
    let listed: Value =
        serde_json::from_str(&run(&scratch, &["ps", "--all", "-o", "json"]).out).unwrap();
    let total: u64 = attempts.iter().map(duration).sum();
    assert_eq!(listed[0]["elapsed_ms"], total, "the time of both attempts: {listed:#}");
}

#[test]
fn fail_fast_run_ends_at_first_denial_and_cannot_land() {
    let role = format!("{ROLE}[escalation]\npolicy = \"fail-fast\"\n");
    let steps = [shell("git push"), "do = \"wait\"\nmilliseconds = 600000".to_owned()];
    let scratch = scene_with(&role, "", &[&steps[0], &steps[1]]);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one"]).expect_code(2);
    assert!(ran.out.contains("denied"), "{}", ran.out);
    let land = run(&scratch, &["land", "one"]).expect_code(2);
    assert!(land.err.contains("failed, and cannot land"), "{}", land.err);
    assert!(!is_alive(&scratch, "one"));
}

/// A pending message must not keep a quarantined run open.
#[test]
fn denied_run_with_pending_message_cannot_land() {
    let role = format!("{ROLE}[escalation]\npolicy = \"fail-fast\"\n");
    let wait = shell("while [ ! -e src/go ]; do sleep 0.1; done");
    let scratch = scene_with(&role, "", &[&write("src/a.txt", "b\n"), &wait, &shell("git push")]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| run(&scratch, &["logs", "one"]).out.contains("allows Bash"));
    run(&scratch, &["attach", "one", "also add a test"]).expect_code(0);
    let early = run(&scratch, &["land", "one"]);
    assert_ne!(early.code, 0, "it is still running");
    std::fs::write(scratch.state().join("worktrees/one/src/go"), "").unwrap();
    run(&scratch, &["logs", "-f", "one"]).expect_code(0);
    wait_for(|| run(&scratch, &["ps", "--all"]).out.contains("denied"));
    for refused in [["land", "one"], ["resume", "one"]] {
        let ran = run(&scratch, &refused).expect_code(2);
        assert!(ran.err.contains("failed") || ran.err.contains("quarantined"), "{}", ran.err);
    }
    assert_eq!(scratch.read("src/a.txt"), "a\n");
}

#[test]
fn background_run_is_shown_as_working_once_the_command_returns() {
    let scratch = scene(&[&shell("sleep 600")]);
    for id in ["one", "two", "three"] {
        run(&scratch, &["run", "-d", "task.toml", "--agent-id", id]).expect_code(0);
        let views = [&["ps"][..], &["status"], &["ledger", "list", "--status", "working"]];
        for view in views {
            let output = run(&scratch, view).expect_code(0);
            let line = output.out.lines().find(|line| line.starts_with(id)).unwrap_or_default();
            assert!(line.contains("working"), "{view:?}: {}{}", output.out, output.err);
        }
        run(&scratch, &["stop", id]).expect_code(0);
        for view in [&["ps", "--all"][..], &["status"], &["ledger", "list"], &["ledger", "tree"]] {
            let output = run(&scratch, view).expect_code(0);
            let line = output.out.lines().find(|line| line.starts_with(id)).unwrap_or_default();
            assert!(line.contains("stopped"), "{view:?}: {}{}", output.out, output.err);
        }
        let stopped = run(&scratch, &["stop", id]).expect_code(2);
        assert!(stopped.err.contains("not running: it is stopped"), "{}", stopped.err);
    }
}

#[test]
fn cut_off_run_cannot_land_and_done_run_accepts_messages() {
    let scratch = scene(&[&write("src/new.txt", "new\n"), &shell("sleep 600")]);
    let mut child =
        started(&scratch, "one", "sleep 600", &["run", "task.toml", "--agent-id", "one"]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| !is_alive(&scratch, "one"));
    run(&scratch, &["ps", "--all"]).expect_code(0);
    let land = run(&scratch, &["land", "one"]).expect_code(2);
    assert!(land.err.contains("the last attempt was stopped (cut-off)"), "{}", land.err);
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    run(&scratch, &["run", "task.toml", "--agent-id", "two"]).expect_code(0);
    let resumed = run(&scratch, &["resume", "two"]).expect_code(2);
    assert!(resumed.err.contains("`two` is done"), "{}", resumed.err);
    assert!(resumed.err.contains("bailiwick attach two"), "{}", resumed.err);
    assert!(resumed.err.contains("bailiwick respawn two"), "{}", resumed.err);
    let cost = run(&scratch, &["cost", "two", "-o", "json"]).expect_code(0);
    assert_eq!(cost.out.matches("\"number\"").count(), 1, "nothing was started: {}", cost.out);
    run(&scratch, &["attach", "two", "once more"]).expect_code(0);
    run(&scratch, &["land", "two"]).expect_code(0);
}

#[test]
fn stop_ends_all_processes_of_an_agent_and_keeps_its_work() {
    let steps = [write("src/first.txt", "first\n"), shell("setsid sleep 600 & sleep 600")];
    let scratch = scene(&[&steps[0], &steps[1]]);
    let mut child =
        started(&scratch, "one", "sleep 600", &["run", "task.toml", "--agent-id", "one"]);
    wait_for(|| is_alive(&scratch, "one"));
    let ps = run(&scratch, &["ps"]).expect_code(0);
    assert!(ps.out.contains("one") && ps.out.contains("working"), "{}", ps.out);
    let second = run(&scratch, &["resume", "one"]).expect_code(2);
    assert!(second.err.contains("is running"), "{}", second.err);
    run(&scratch, &["stop", "one"]).expect_code(0);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!is_alive(&scratch, "one"), "no process is left");
    let ps = run(&scratch, &["ps", "--all"]).expect_code(0);
    assert!(ps.out.contains("stopped"), "{}", ps.out);
    assert!(scratch.state().join("worktrees/one/src/first.txt").exists(), "its work is not lost");
    let diff = run(&scratch, &["diff", "one"]).expect_code(0);
    assert!(diff.out.contains("+first"), "{}", diff.out);
    let refused = run(&scratch, &["rm", "one"]).expect_code(2);
    assert!(refused.err.contains("would be lost"), "{}", refused.err);
    run(&scratch, &["rm", "one", "--force"]).expect_code(0);
    assert!(!scratch.state().join("worktrees/one").exists());
    assert!(run(&scratch, &["logs", "one"]).expect_code(0).out.contains("allows Write"));
}

#[test]
fn interrupt_stops_the_agent_and_suggests_resume() {
    let scratch = scene(&[&write("src/first.txt", "x\n"), &shell("sleep 600")]);
    let child = started(&scratch, "one", "sleep 600", &["run", "task.toml", "--agent-id", "one"]);
    let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap()).expect_code(1);
    assert!(ran.out.contains("stopped"), "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("next: resume it: bailiwick resume one"), "{}", ran.err);
    assert!(!is_alive(&scratch, "one"));
}

#[test]
fn agent_of_a_killed_supervisor_ends_and_is_reported_once() {
    let scratch = scene(&[&shell("setsid sleep 600 & sleep 600")]);
    let mut child =
        started(&scratch, "one", "sleep 600", &["run", "task.toml", "--agent-id", "one"]);
    wait_for(|| is_alive(&scratch, "one"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| !is_alive(&scratch, "one"));
    let ps = run(&scratch, &["ps", "--all"]).expect_code(0);
    assert!(ps.err.contains("`one` was cut off; resume it: bailiwick resume one"), "{}", ps.err);
    assert!(ps.out.contains("cut-off"), "{}", ps.out);
    let again = run(&scratch, &["ps", "--all"]).expect_code(0);
    assert!(!again.err.contains("was cut off"), "reported once: {}", again.err);
}

#[test]
fn background_run_can_be_followed_to_its_end() {
    let steps = [shell("while [ ! -e src/go ]; do sleep 0.1; done"), write("src/done.txt", "x\n")];
    let scratch = scene(&[&steps[0], &steps[1]]);
    let ran = run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    assert_eq!(ran.out.trim(), "one");
    wait_for(|| run(&scratch, &["logs", "one"]).out.contains("allows Bash"));
    std::fs::write(scratch.state().join("worktrees/one/src/go"), "").unwrap();
    let followed = run(&scratch, &["logs", "-f", "one"]).expect_code(0);
    assert!(followed.out.contains("completed"), "{}", followed.out);
    wait_for(|| run(&scratch, &["ps", "--all"]).out.contains("done"));
}

#[test]
fn call_that_needs_approval_waits_for_the_answer() {
    let role = ROLE.replace("allowed = [\"*\"]", "allowed = [\"*\"]\nask = [\"Write\"]");
    // With a right-to-left override, a person would read another file name.
    let disguised = write("src/no-txt.exe", "x\n").replace("no-", "no\u{202e}");
    let steps = [write("src/yes.txt", "x\n"), disguised, write("src/late.txt", "x\n")];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let scratch = scene_with(&role, "", &steps);
    scratch.write(".bailiwick/settings.toml", "[run]\napproval-seconds = 20\n");
    scratch.commit("settings");
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    for (number, verb) in [("1", "approve"), ("2", "deny")] {
        wait_for(|| {
            let list = run(&scratch, &["approvals", "list"]).out;
            assert!(!list.contains('\u{202e}'), "{list:?}");
            list.contains(&format!("one {number}  Write"))
        });
        run(&scratch, &["approvals", verb, "one", number]).expect_code(0);
    }
    run(&scratch, &["logs", "-f", "one"]).expect_code(0);
    let worktree = scratch.state().join("worktrees/one/src");
    assert!(worktree.join("yes.txt").exists(), "approved");
    assert!(!worktree.join("no\u{202e}txt.exe").exists(), "a person denied the call");
    assert!(!worktree.join("late.txt").exists(), "a call without an answer is denied");
    let reasons = run(&scratch, &["logs", "one"]).out;
    assert!(reasons.contains("said no") && reasons.contains("did not answer in time"), "{reasons}");
}

#[test]
fn only_commits_that_the_role_allows_are_imported() {
    let role = ROLE.replace("\"policy::git-read-only\", ", "");
    let steps = [
        write("src/new.txt", "new\n"),
        shell("git add -A && git -c user.name=a -c user.email=a@b commit -qm work"),
        shell("git branch other && git config user.name mine; true"),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let scratch = scene_with(&role, "", &steps);
    let config = scratch.git(&["config", "--list", "--local"]);
    run(&scratch, &["run", "task.toml", "--agent-id", "one", "--no-verify"]).expect_code(0);
    let log = scratch.git(&["log", "--format=%s", "agent/one"]);
    assert!(log.starts_with("work\n"), "{log}");
    assert_eq!(scratch.git(&["branch", "--list", "other"]), "", "no other branch was created");
    assert_eq!(scratch.git(&["config", "--list", "--local"]), config);
}

#[test]
fn invalid_task_is_refused_with_a_reason() {
    let scratch = scene(&[]);
    let empty = run(&scratch, &["run", "task.toml", "--agent-id", "one"]).expect_code(2);
    assert!(empty.err.contains("[[agent.script]]"), "{}", empty.err);
    let text = scratch.read("task.toml").replace("\"script\"", "\"nobody\"");
    scratch.write("task.toml", &text);
    let unknown = run(&scratch, &["run", "task.toml", "--agent-id", "two"]).expect_code(2);
    assert!(unknown.err.contains("there is no agent program `nobody`"), "{}", unknown.err);
}

#[test]
fn kei_agent_runtime_run_spawns_and_checks() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let ran = scratch.run(KEI_AGENT_RUNTIME, &["run", "task.toml"]).expect_code(0);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["ending"], "completed");
    assert_eq!(result["verification"]["failed"], Value::Array(Vec::new()));
    assert_eq!(result["landed"], false);
}

#[test]
fn spawned_agent_can_be_started_later_and_only_once() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    run(&scratch, &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
    run(&scratch, &["run", "one"]).expect_code(0);
    let again = run(&scratch, &["run", "one"]).expect_code(2);
    assert!(again.err.contains("is done"), "{}", again.err);
    let background = run(&scratch, &["run", "-d", "one"]).expect_code(2);
    assert_eq!(background.err, again.err, "the same error in the background");
    assert!(!background.out.contains("one"), "nothing was started: {}", background.out);
    run(&scratch, &["land", "one"]).expect_code(0);
    let refused = run(&scratch, &["attach", "one", "one thing more"]).expect_code(2);
    assert!(refused.err.contains("cannot be started again"), "{}", refused.err);
    assert!(!refused.err.contains("it is resumed"), "{}", refused.err);
}

/// A repository with a program that fills the disk, whose text the gate does not read.
fn repository_that_fills_the_disk(fill: &str, limit_mib: u32) -> Scratch {
    let scratch = scene(&[&write("src/kept.txt", "kept\n"), &shell("./src/fill")]);
    scratch.write("src/fill", &format!("#!/bin/sh\n{fill}\n"));
    let file = scratch.root().join("src/fill");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(file, mode).unwrap();
    scratch.write(".bailiwick/settings.toml", &format!("[run]\ndisk-mib = {limit_mib}\n"));
    scratch.commit("bound");
    scratch
}

/// The limit applies to every place where the agent can write.
#[test]
fn agent_that_fills_the_disk_is_stopped_and_work_is_kept() {
    for (id, file) in
        [("worktree", "src/large.bin"), ("home", "~/large.bin"), ("temp", "/tmp/large.bin")]
    {
        let fill = format!("head -c 200M /dev/zero > {file}; sleep 1000");
        let scratch = repository_that_fills_the_disk(&fill, 100);
        let ran = run(&scratch, &["run", "task.toml", "--agent-id", id, "-o", "json"]);
        let ran = ran.expect_code(1);
        let result: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(result["ending"], "budget-exhausted", "{result:#}");
        let detail = result["detail"].as_str().unwrap();
        assert!(detail.contains("disk, of which it may add 100 MiB"), "{detail}");
        let worktree = scratch.state().join("worktrees").join(id);
        assert_eq!(std::fs::read_to_string(worktree.join("src/kept.txt")).unwrap(), "kept\n");
        wait_for(|| !is_alive(&scratch, id));
    }
    // The control: the same program succeeds with a higher limit.
    let scratch = repository_that_fills_the_disk("head -c 200M /dev/zero > ~/large.bin", 1000);
    run(&scratch, &["run", "task.toml", "--agent-id", "roomy"]).expect_code(0);
}

#[test]
fn deleted_open_file_counts_as_disk_space() {
    let fill = |rest: &str| {
        format!("exec 7> ~/gone.bin; rm ~/gone.bin; head -c 200M /dev/zero >&7; {rest}")
    };
    let scratch = repository_that_fills_the_disk(&fill("sleep 1000"), 100);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one", "-o", "json"]);
    let result: Value = serde_json::from_str(&ran.expect_code(1).out).unwrap();
    assert_eq!(result["ending"], "budget-exhausted", "{result:#}");
    let detail = result["detail"].as_str().unwrap();
    assert!(detail.contains("disk, of which it may add 100 MiB"), "{detail}");
    // The control: the file is below the limit, although several processes have it open.
    let scratch = repository_that_fills_the_disk(&fill("sleep 2 & sleep 2 & sleep 3; wait"), 300);
    run(&scratch, &["run", "task.toml", "--agent-id", "roomy"]).expect_code(0);
}

#[test]
fn denial_sends_a_notification_and_warning_is_logged() {
    let role = ROLE
        .replace("\"policy::git-read-only\"", "\"policy::git-read-only\", \"policy::no-echo\"")
        + "[escalation]\npolicy = \"orchestrator-notify\"\n";
    let (echo, push) = (shell("echo hello > src/b.txt"), shell("git push origin main"));
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/helper.toml", &role);
    scratch.write(".bailiwick/capabilities/policy/no-echo/text.md", "Print nothing.\n");
    scratch.write(
        ".bailiwick/capabilities/policy/no-echo/capability.toml",
        "[capability]\nname = \"policy::no-echo\"\ncategory = \"policy\"\nversion = \"1.0\"\ndescription = \
         \"d\"\nrationale = \"r\"\n[restricts]\ntool-patterns = ['^echo( |$)']\ntools-denied = []\n\
         [parameterized]\naccepts = []\n[text]\npath = \"text.md\"\n[gate]\nrust-module = \"\"\nevent = \
         \"PreToolUse:Bash\"\nseverity = \"warn\"\n",
    );
    scratch.write("src/a.txt", "a\n");
    scratch.write("task.toml", &task("", &[&echo, &push]));
    scratch.commit("start");
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "one"]);
    let events = events(&scratch, "one");
    let warned = kinds(&events, "warning");
    assert_eq!(warned.len(), 1, "{} {}", ran.out, ran.err);
    assert_eq!((&warned[0]["rule"], &warned[0]["told"]), (&"policy::no-echo".into(), &true.into()));
    let notified = kinds(&events, "notification");
    assert_eq!(notified.len(), 1, "{events:?}");
    let text = notified[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("denied Bash git push origin main: policy::git-read-only: "),
        "{text}"
    );
    let shown = run(&scratch, &["logs", "one"]).expect_code(0).out;
    assert!(shown.contains("warns") && shown.contains("notifies"), "{shown}");
    // The call with the warning has run.
    assert!(run(&scratch, &["diff", "one"]).out.contains("+hello"));
}
