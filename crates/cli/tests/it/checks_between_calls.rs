//! Checks that are marked `per-tool-call`: each new tree is checked once, and a failure is reported at the
//! next call. Scripted agents in the full sandbox.

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{events, is_alive, kinds, run, shell, started, wait_for, write};

pub(crate) const NAME: &str = "quality::own";

/// Fails while `src/a.txt` contains `broken`.
const CHECK: &str = "! grep broken src/a.txt || { echo seen-by-the-check; exit 3; }";
const MARKED: &str = "per-tool-call";

/// A capability whose check is this command.
pub(crate) fn capability(scratch: &Scratch, when: &str, command: &str) {
    let text = format!(
        "[capability]\nname = {NAME:?}\ncategory = \"quality\"\ndescription = \"d\"\n[text]\npath = \
         \"text.md\"\n[verify]\ncommand = {command:?}\nwhen = {when:?}\n"
    );
    scratch.write(".bailiwick/capabilities/quality/own/capability.toml", &text);
    scratch.write(".bailiwick/capabilities/quality/own/text.md", "You MUST keep it whole.\n");
}

/// A repository with that capability, and a task of these steps. `more` is added to its role.
fn scene(when: &str, command: &str, more: &str, steps: &[String]) -> Scratch {
    let scratch = Scratch::repository();
    capability(&scratch, when, command);
    let role = format!(
        "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
         [\"scope::files-whitelist\", {NAME:?}]\n[tools]\nallowed = [\"*\"]\n{more}"
    );
    scratch.write(".bailiwick/roles/helper.toml", &role);
    scratch.write("src/a.txt", "a\n");
    let steps: String = steps.iter().map(|step| format!("[[agent.script]]\n{step}\n")).collect();
    let task = format!(
        "[task]\nrole = \"helper\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \"do \
         it\"\n[agent]\ncli = \"script\"\n{steps}"
    );
    scratch.write("task.toml", &task);
    scratch.commit("start");
    scratch
}

/// Breaks the check, continues, fixes it, continues.
fn break_and_fix() -> Vec<String> {
    vec![
        write("src/a.txt", "broken\n"),
        write("src/early.txt", "x\n"),
        write("src/a.txt", "mended\n"),
        write("src/late.txt", "x\n"),
    ]
}

const RUN: [&str; 4] = ["run", "task.toml", "--agent-id", "one"];

fn decisions(events: &[Value]) -> Vec<Value> {
    kinds(events, "decision").iter().map(|event| event["answer"].clone()).collect()
}

fn check_results(events: &[Value]) -> Vec<Value> {
    kinds(events, "check").iter().map(|event| event["ok"].clone()).collect()
}

fn exists(scratch: &Scratch, name: &str) -> bool {
    scratch.state().join("worktrees/one/src").join(name).exists()
}

/// Asserts that the failure of `break_and_fix` was reported once, and that the agent continued.
#[track_caller]
fn assert_reported_and_fixed(scratch: &Scratch) {
    let events = events(scratch, "one");
    assert_eq!(decisions(&events), ["allow", "deny", "allow", "allow"]);
    assert_eq!(check_results(&events), [false, true], "each tree is checked once");
    assert!(!exists(scratch, "early.txt") && exists(scratch, "late.txt"));
    let denied = &kinds(&events, "decision")[1];
    let output = kinds(&events, "tool-result")[1]["output"].as_str().unwrap().to_owned();
    let reason = denied["reason"].as_str().unwrap();
    assert_eq!(denied["rule"], NAME);
    for expected in ["check quality::own failed after your last change", "seen-by-the-check"] {
        assert!(reason.contains(expected) && output.contains(expected), "{reason}\n{output}");
    }
    let failed = &kinds(&events, "check")[0];
    assert_eq!((&failed["check"], &failed["seen_by"]), (&NAME.into(), &"supervisor".into()));
    assert!(failed["found"].as_str().unwrap().contains("seen-by-the-check"), "{failed}");
    assert_ne!(failed["tree"], kinds(&events, "check")[1]["tree"]);
}

#[test]
fn change_that_breaks_a_check_is_reported_once_and_can_be_fixed() {
    let scratch = scene(MARKED, CHECK, "", &break_and_fix());
    let ran = run(&scratch, &[&RUN[..], &["--land", "auto"]].concat()).expect_code(0);
    assert_reported_and_fixed(&scratch);
    assert!(ran.err.contains("fail quality::own"), "the failure is not printed: {}", ran.err);
    assert_eq!(scratch.read("src/a.txt"), "mended\n", "the work has not landed");
}

#[test]
fn unmarked_check_runs_only_at_the_end() {
    let scratch = scene("on-return", CHECK, "", &break_and_fix()[..2]);
    run(&scratch, &RUN).expect_code(2);
    let events = events(&scratch, "one");
    assert_eq!(decisions(&events), ["allow", "allow"]);
    assert_eq!(check_results(&events), [Value::Null; 0]);
    assert!(exists(&scratch, "early.txt"));
}

#[test]
fn tree_that_fails_at_the_end_does_not_land() {
    let scratch = scene(MARKED, CHECK, "", &break_and_fix()[..2]);
    let ran = run(&scratch, &[&RUN[..], &["--land", "auto"]].concat()).expect_code(2);
    assert!(ran.out.contains("FAIL  quality::own"), "{}", ran.out);
    assert_eq!(decisions(&events(&scratch, "one")), ["allow", "deny"]);
    assert_eq!(scratch.read("src/a.txt"), "a\n");
}

#[test]
fn passing_calls_are_allowed_and_unchanged_tree_is_not_checked_again() {
    let steps = [
        shell("cat src/a.txt"),
        write("src/new.txt", "one\n"),
        shell("cat src/new.txt"),
        shell("touch src/new.txt; rm -f src/none.txt"),
        shell("cat src/new.txt"),
        write("src/new.txt", "two\n"),
        shell("cat src/new.txt"),
        // The same tree as before.
        write("src/new.txt", "one\n"),
        shell("cat src/new.txt"),
    ];
    let scratch = scene(MARKED, CHECK, "", &steps);
    run(&scratch, &RUN).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(decisions(&events), ["allow"; 9]);
    assert_eq!(check_results(&events), [true, true], "two trees are new");
}

/// The denial tells the agent about the broken check. It is not a violation of a limit.
#[test]
fn fail_fast_role_can_fix_a_broken_check() {
    let role = "[escalation]\npolicy = \"fail-fast\"\n";
    let scratch = scene(MARKED, CHECK, role, &break_and_fix());
    run(&scratch, &RUN).expect_code(0);
    assert_reported_and_fixed(&scratch);
}

#[test]
fn check_between_calls_works_in_the_background() {
    let scratch = scene(MARKED, CHECK, "", &break_and_fix());
    run(&scratch, &[&["run", "-d"], &RUN[1..]].concat()).expect_code(0);
    run(&scratch, &["logs", "-f", "one"]).expect_code(0);
    assert_reported_and_fixed(&scratch);
}

#[test]
fn failed_check_is_reported_after_a_resume_if_it_was_not_before() {
    let steps = [write("src/a.txt", "broken\n"), "do = \"exit\"\ncode = 1".to_owned()];
    let scratch = scene(MARKED, CHECK, "", &steps);
    run(&scratch, &RUN).expect_code(1);
    assert_eq!(decisions(&events(&scratch, "one")), ["allow"]);
    // The script starts from its first step each time.
    run(&scratch, &["resume", "one"]).expect_code(1);
    run(&scratch, &["resume", "one"]).expect_code(1);
    let events = events(&scratch, "one");
    assert_eq!(
        decisions(&events),
        ["allow", "deny", "allow"],
        "the failure is reported once, not in each attempt"
    );
    assert_eq!(check_results(&events), [false]);
}

#[test]
fn read_only_role_is_not_checked_between_calls() {
    let read = "do = \"read\"\npath = \"src/a.txt\"".to_owned();
    let scratch = scene(MARKED, "false", "", &[read.clone(), read]);
    let role = scratch.read(".bailiwick/roles/helper.toml").replace("[\"*\"]", "[\"Read\"]");
    scratch.write(".bailiwick/roles/helper.toml", &role);
    scratch.commit("reads");
    run(&scratch, &[&RUN[..], &["--no-verify"]].concat()).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(decisions(&events), ["allow", "allow"]);
    assert_eq!(check_results(&events), [Value::Null; 0]);
}

#[test]
fn check_that_exceeds_its_time_limit_fails() {
    let command = "test ! -e src/slow || sleep 1000";
    let steps = [write("src/slow", "x\n"), write("src/early.txt", "x\n"), shell("rm src/slow")];
    let scratch = scene(MARKED, command, "", &steps);
    scratch.write(".bailiwick/settings.toml", "[checks]\nminutes = 1\n");
    scratch.commit("a minute");
    run(&scratch, &[&RUN[..], &["--no-verify"]].concat()).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(decisions(&events), ["allow", "deny", "allow"]);
    let reason = kinds(&events, "decision")[1]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("was stopped after "), "{reason}");
    assert!(!exists(&scratch, "early.txt") && !exists(&scratch, "slow"));
}

/// First the directory for checks cannot be created, then the base branch does not exist.
#[test]
fn calls_are_denied_while_checks_cannot_run() {
    let wait_for_go = shell("while [ ! -e src/go ]; do sleep 0.1; done");
    let steps = [wait_for_go, write("src/b.txt", "x\n"), write("src/c.txt", "x\n")];
    for (broken, expected) in [("caches", "there is no place to run checks"), ("branch", "main")] {
        let scratch = scene(MARKED, CHECK, "", &steps);
        run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one", "--no-verify"])
            .expect_code(0);
        wait_for(|| run(&scratch, &["logs", "one"]).out.contains("allows Bash"));
        match broken {
            "caches" => {
                let _ = std::fs::remove_dir_all(scratch.state().join("caches"));
                std::fs::write(scratch.state().join("caches"), "").unwrap();
            }
            _ => drop(scratch.git(&["branch", "--move", "main", "other"])),
        }
        std::fs::write(scratch.state().join("worktrees/one/src/go"), "").unwrap();
        run(&scratch, &["logs", "-f", "one"]).expect_code(0);
        let events = events(&scratch, "one");
        assert_eq!(
            decisions(&events),
            ["allow", "deny", "deny"],
            "{broken}: both calls are denied"
        );
        let denied = &kinds(&events, "decision")[2];
        assert_eq!(denied["rule"], "bailiwick::checks");
        assert!(denied["reason"].as_str().unwrap().contains(expected), "{denied}");
        assert!(!exists(&scratch, "b.txt") && !exists(&scratch, "c.txt"));
    }
}

/// How a run is ended while a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Interrupt,
    Kill,
}

#[test]
fn check_ends_with_its_run() {
    for (index, end) in [End::Stop, End::Interrupt, End::Kill].into_iter().enumerate() {
        // The number is in no other command line.
        let number = u64::from(std::process::id()) * 100_000 + 55_550 + index as u64;
        let command =
            format!("test ! -e src/slow || {{ setsid sleep {number} & sleep {number}; }}");
        let sleep_count = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.filter(|line| *line == format!("sleep\0{number}\0").as_bytes()).count()
        };
        let steps = [write("src/slow", "x\n"), write("src/b.txt", "x\n")];
        let scratch = scene(MARKED, &command, "", &steps);
        let mut child = started(&scratch, "one", "allow", &RUN);
        wait_for(|| sleep_count() == 2);
        match end {
            End::Stop => drop(run(&scratch, &["stop", "one"]).expect_code(0)),
            End::Interrupt => {
                kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
            }
            End::Kill => child.kill().unwrap(),
        }
        let ran = Ran::from(child.wait_with_output().unwrap());
        wait_for(|| sleep_count() == 0 && !is_alive(&scratch, "one"));
        run(&scratch, &["ps", "--all"]).expect_code(0);
        let events = events(&scratch, "one");
        let ended = kinds(&events, "ended");
        let expected = if end == End::Kill { "cut-off" } else { "stopped" };
        assert_eq!(ended.len(), 1, "{end:?}: {ended:?} {}", ran.err);
        assert_eq!(ended[0]["how"], expected, "{end:?}");
        assert_eq!(check_results(&events), [Value::Null; 0], "{end:?}: the check has no result");
        assert!(!exists(&scratch, "b.txt"), "{end:?}");
    }
}
