//! Output when a run waits for a person: in `status`, in the prompt to land, and after Ctrl-C.

use std::process::{Child, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::BAILIWICK;
use crate::exec::Console;
use crate::run::{run, scene, shell, wait_for, write};
use crate::screens::on_terminal;

fn status(scratch: &Scratch) -> String {
    run(scratch, &["status"]).expect_code(0).out
}

/// Makes this command the only check of the task.
fn set_check_command(scratch: &Scratch, command: &str) {
    let task = scratch.read("task.toml").replace("[\"true\"]", &format!("[{command:?}]"));
    scratch.write("task.toml", &task);
    scratch.commit("another check");
}

#[test]
fn status_suggests_the_next_command_by_check_result() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let arguments = ["run", "task.toml", "--land", "never", "--agent-id"];
    run(&scratch, &[&arguments[..], &["good"]].concat()).expect_code(0);
    run(&scratch, &[&arguments[..], &["unseen", "--no-verify"]].concat()).expect_code(0);
    set_check_command(&scratch, "false");
    run(&scratch, &[&arguments[..], &["bad"]].concat()).expect_code(2);
    let shown = status(&scratch);
    for (state, next) in [
        ("checks passed", "bailiwick land good"),
        ("checks failed", "bailiwick respawn bad"),
        ("done", "bailiwick verify unseen"),
    ] {
        let line = shown.lines().find(|line| line.contains(next));
        let line = line.unwrap_or_else(|| panic!("{next} is not in:\n{shown}"));
        assert!(line.contains(state), "{line}");
    }
}

#[test]
fn status_reports_that_an_agent_changed_nothing() {
    let scratch = scene(&[&shell("true")]);
    let ran = run(&scratch, &["run", "task.toml", "--agent-id", "idle"]);
    assert!(ran.err.contains("bailiwick logs idle; bailiwick rm idle"), "{}", ran.err);
    let shown = status(&scratch);
    assert!(shown.contains("nothing changed") && shown.contains("bailiwick rm idle"), "{shown}");
}

#[test]
fn prompt_to_land_shows_diffstat_and_only_if_work_can_land() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let mut console = Console::start(&scratch, &["run", "task.toml", "--agent-id", "one"], &[]);
    console.wait_for("Land it? [y/N]");
    assert!(console.output().contains("src/new.txt | 1 +"), "{}", console.output());
    console.enter("\x03");
    console.wait_for("not landed; the work is kept: bailiwick land one");
    let _ = console.end();
    scratch.write("src/a.txt", "not committed\n");
    let dirty = on_terminal(&scratch, 80, "$B run task.toml --agent-id two --color never");
    assert!(dirty.contains("it cannot land yet"), "{dirty}");
    assert!(!dirty.contains("Land it?"), "{dirty}");
    assert!(dirty.contains("bailiwick land two"), "the work is not lost: {dirty}");
}

/// Starts a command, and interrupts it once the condition is true.
fn interrupt_when(scratch: &Scratch, arguments: &[&str], condition: impl Fn() -> bool) -> Ran {
    // Child processes inherit ignored signals, and the parent of the tests may ignore interrupts.
    let mut command = scratch.command("env");
    command.args(["--default-signal=INT", BAILIWICK]);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child: Child = command.spawn().unwrap();
    wait_for(condition);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    Ran::from(child.wait_with_output().unwrap()).expect_code(130)
}

#[test]
fn interrupt_during_checks_suggests_verify() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    set_check_command(&scratch, "sleep 600");
    let verifying = || {
        let logs = run(&scratch, &["logs", "one", "-o", "json"]).out;
        logs.contains("\"verifying\"")
    };
    let ran = interrupt_when(&scratch, &["run", "task.toml", "--agent-id", "one"], verifying);
    assert!(ran.err.contains("the work is kept: bailiwick verify one"), "{}", ran.err);
    let worktree = scratch.state().join("worktrees/one");
    assert_eq!(std::fs::read_to_string(worktree.join("src/new.txt")).unwrap(), "new\n");
}

#[test]
fn interrupt_during_setup_reports_that_no_work_began() {
    let scratch = scene(&[&write("src/new.txt", "new\n")]);
    let task = scratch.read("task.toml");
    scratch.write("task.toml", &format!("{task}\n[workspace]\nsetup = [\"sleep 61613\"]\n"));
    scratch.commit("a setup");
    let is_setup = |process: &std::path::Path| {
        std::fs::read(process.join("cmdline")).is_ok_and(|words| words == b"sleep\x0061613\0")
    };
    let setup_runs =
        || std::fs::read_dir("/proc").unwrap().flatten().any(|one| is_setup(&one.path()));
    let ran = interrupt_when(&scratch, &["run", "task.toml", "--agent-id", "one"], setup_runs);
    assert!(
        ran.err.contains("before the agent began its work; the next command: bailiwick status"),
        "{}",
        ran.err
    );
}
