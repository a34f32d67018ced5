//! Checks that are marked `per-tool-call`: each new tree is checked once, and what breaks one is told at the
//! next call. Scripted agents in the full sandbox.

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::run::{events, is_alive, kinds, run, shell, started, wait_for, write};

pub(crate) const NAME: &str = "quality::own";

/// Fails while `src/a.txt` says so.
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

/// Breaks it, goes on, mends it, goes on.
fn breaks_and_mends() -> Vec<String> {
    vec![
        write("src/a.txt", "broken\n"),
        write("src/early.txt", "x\n"),
        write("src/a.txt", "mended\n"),
        write("src/late.txt", "x\n"),
    ]
}

const RUN: [&str; 4] = ["run", "task.toml", "--agent-id", "one"];

fn answers(events: &[Value]) -> Vec<Value> {
    kinds(events, "decision").iter().map(|event| event["answer"].clone()).collect()
}

fn verdicts(events: &[Value]) -> Vec<Value> {
    kinds(events, "check").iter().map(|event| event["ok"].clone()).collect()
}

fn is_there(scratch: &Scratch, name: &str) -> bool {
    scratch.state().join("worktrees/one/src").join(name).exists()
}

/// That `breaks_and_mends` was told once, and went on.
#[track_caller]
fn was_told_and_mended(scratch: &Scratch) {
    let events = events(scratch, "one");
    assert_eq!(answers(&events), ["allow", "deny", "allow", "allow"]);
    assert_eq!(verdicts(&events), [false, true], "each tree once");
    assert!(!is_there(scratch, "early.txt") && is_there(scratch, "late.txt"));
    let denied = &kinds(&events, "decision")[1];
    let heard = kinds(&events, "tool-result")[1]["output"].as_str().unwrap().to_owned();
    let reason = denied["reason"].as_str().unwrap();
    assert_eq!(denied["rule"], NAME);
    for words in ["check quality::own failed after your last change", "seen-by-the-check"] {
        assert!(reason.contains(words) && heard.contains(words), "{reason}\n{heard}");
    }
    let failed = &kinds(&events, "check")[0];
    assert_eq!((&failed["check"], &failed["seen_by"]), (&NAME.into(), &"supervisor".into()));
    assert!(failed["found"].as_str().unwrap().contains("seen-by-the-check"), "{failed}");
    assert_ne!(failed["tree"], kinds(&events, "check")[1]["tree"]);
}

#[test]
fn a_change_that_breaks_the_check_is_told_once_and_can_be_mended() {
    let scratch = scene(MARKED, CHECK, "", &breaks_and_mends());
    let ran = run(&scratch, &[&RUN[..], &["--land", "auto"]].concat()).expect_code(0);
    was_told_and_mended(&scratch);
    assert!(ran.err.contains("fail quality::own"), "a person sees it, too: {}", ran.err);
    assert_eq!(scratch.read("src/a.txt"), "mended\n", "it has landed");
}

#[test]
fn without_the_mark_it_is_checked_at_the_end_alone() {
    let scratch = scene("on-return", CHECK, "", &breaks_and_mends()[..2]);
    run(&scratch, &RUN).expect_code(2);
    let events = events(&scratch, "one");
    assert_eq!(answers(&events), ["allow", "allow"]);
    assert_eq!(verdicts(&events), [Value::Null; 0]);
    assert!(is_there(&scratch, "early.txt"));
}

#[test]
fn a_tree_that_fails_at_the_end_does_not_land_although_it_was_told() {
    let scratch = scene(MARKED, CHECK, "", &breaks_and_mends()[..2]);
    let ran = run(&scratch, &[&RUN[..], &["--land", "auto"]].concat()).expect_code(2);
    assert!(ran.out.contains("FAIL  quality::own"), "{}", ran.out);
    assert_eq!(answers(&events(&scratch, "one")), ["allow", "deny"]);
    assert_eq!(scratch.read("src/a.txt"), "a\n");
}

#[test]
fn what_holds_is_denied_nothing_and_the_same_tree_is_not_checked_again() {
    let steps = [
        shell("cat src/a.txt"),
        write("src/new.txt", "one\n"),
        shell("cat src/new.txt"),
        shell("touch src/new.txt; rm -f src/none.txt"),
        shell("cat src/new.txt"),
        write("src/new.txt", "two\n"),
        shell("cat src/new.txt"),
        // Back at what it had already.
        write("src/new.txt", "one\n"),
        shell("cat src/new.txt"),
    ];
    let scratch = scene(MARKED, CHECK, "", &steps);
    run(&scratch, &RUN).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(answers(&events), ["allow"; 9]);
    assert_eq!(verdicts(&events), [true, true], "two trees were new");
}

/// The denial tells the agent about the broken check. It is not a violation of a limit.
#[test]
fn a_role_that_fails_fast_can_repair_a_broken_check() {
    let role = "[escalation]\npolicy = \"fail-fast\"\n";
    let scratch = scene(MARKED, CHECK, role, &breaks_and_mends());
    run(&scratch, &RUN).expect_code(0);
    was_told_and_mended(&scratch);
}

#[test]
fn in_the_background_it_is_the_same() {
    let scratch = scene(MARKED, CHECK, "", &breaks_and_mends());
    run(&scratch, &[&["run", "-d"], &RUN[1..]].concat()).expect_code(0);
    run(&scratch, &["logs", "-f", "one"]).expect_code(0);
    was_told_and_mended(&scratch);
}

#[test]
fn a_resumed_agent_is_told_about_a_check_that_it_was_not_told_about() {
    let steps = [write("src/a.txt", "broken\n"), "do = \"exit\"\ncode = 1".to_owned()];
    let scratch = scene(MARKED, CHECK, "", &steps);
    run(&scratch, &RUN).expect_code(1);
    assert_eq!(answers(&events(&scratch, "one")), ["allow"]);
    // The script begins anew each time.
    run(&scratch, &["resume", "one"]).expect_code(1);
    run(&scratch, &["resume", "one"]).expect_code(1);
    let events = events(&scratch, "one");
    assert_eq!(answers(&events), ["allow", "deny", "allow"], "once, and not in each attempt");
    assert_eq!(verdicts(&events), [false]);
}

#[test]
fn a_role_that_only_reads_is_checked_between_no_calls() {
    let read = "do = \"read\"\npath = \"src/a.txt\"".to_owned();
    let scratch = scene(MARKED, "false", "", &[read.clone(), read]);
    let role = scratch.read(".bailiwick/roles/helper.toml").replace("[\"*\"]", "[\"Read\"]");
    scratch.write(".bailiwick/roles/helper.toml", &role);
    scratch.commit("reads");
    run(&scratch, &[&RUN[..], &["--no-verify"]].concat()).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(answers(&events), ["allow", "allow"]);
    assert_eq!(verdicts(&events), [Value::Null; 0]);
}

#[test]
fn a_check_that_takes_too_long_has_failed() {
    let slow = "test ! -e src/slow || sleep 1000";
    let steps = [write("src/slow", "x\n"), write("src/early.txt", "x\n"), shell("rm src/slow")];
    let scratch = scene(MARKED, slow, "", &steps);
    scratch.write(".bailiwick/settings.toml", "[checks]\nminutes = 1\n");
    scratch.commit("a minute");
    run(&scratch, &[&RUN[..], &["--no-verify"]].concat()).expect_code(0);
    let events = events(&scratch, "one");
    assert_eq!(answers(&events), ["allow", "deny", "allow"]);
    let reason = kinds(&events, "decision")[1]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("was stopped after "), "{reason}");
    assert!(!is_there(&scratch, "early.txt") && !is_there(&scratch, "slow"));
}

/// The place where checks run cannot be made; then the branch that the tree is compared with is gone.
#[test]
fn while_nothing_can_be_checked_nothing_runs() {
    let go = shell("while [ ! -e src/go ]; do sleep 0.1; done");
    let steps = [go, write("src/b.txt", "x\n"), write("src/c.txt", "x\n")];
    for (place, why) in [("caches", "there is no place to run checks"), ("branch", "main")] {
        let scratch = scene(MARKED, CHECK, "", &steps);
        run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one", "--no-verify"])
            .expect_code(0);
        wait_for(|| run(&scratch, &["logs", "one"]).out.contains("allows Bash"));
        match place {
            "caches" => {
                let _ = std::fs::remove_dir_all(scratch.state().join("caches"));
                std::fs::write(scratch.state().join("caches"), "").unwrap();
            }
            _ => drop(scratch.git(&["branch", "--move", "main", "other"])),
        }
        std::fs::write(scratch.state().join("worktrees/one/src/go"), "").unwrap();
        run(&scratch, &["logs", "-f", "one"]).expect_code(0);
        let events = events(&scratch, "one");
        assert_eq!(answers(&events), ["allow", "deny", "deny"], "{place}: and not only once");
        let denied = &kinds(&events, "decision")[2];
        assert_eq!(denied["rule"], "bailiwick::checks");
        assert!(denied["reason"].as_str().unwrap().contains(why), "{denied}");
        assert!(!is_there(&scratch, "b.txt") && !is_there(&scratch, "c.txt"));
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
fn a_check_ends_with_its_run() {
    for (place, end) in [End::Stop, End::Interrupt, End::Kill].into_iter().enumerate() {
        // The number is in no other command line.
        let number = u64::from(std::process::id()) * 100_000 + 55_550 + place as u64;
        let command =
            format!("test ! -e src/slow || {{ setsid sleep {number} & sleep {number}; }}");
        let sleeps = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.filter(|line| *line == format!("sleep\0{number}\0").as_bytes()).count()
        };
        let steps = [write("src/slow", "x\n"), write("src/b.txt", "x\n")];
        let scratch = scene(MARKED, &command, "", &steps);
        let mut child = started(&scratch, "one", "allow", &RUN);
        wait_for(|| sleeps() == 2);
        match end {
            End::Stop => drop(run(&scratch, &["stop", "one"]).expect_code(0)),
            End::Interrupt => {
                kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
            }
            End::Kill => child.kill().unwrap(),
        }
        let ran = Ran::from(child.wait_with_output().unwrap());
        wait_for(|| sleeps() == 0 && !is_alive(&scratch, "one"));
        run(&scratch, &["ps", "--all"]).expect_code(0);
        let events = events(&scratch, "one");
        let ended = kinds(&events, "ended");
        let how = if end == End::Kill { "cut-off" } else { "stopped" };
        assert_eq!(ended.len(), 1, "{end:?}: {ended:?} {}", ran.err);
        assert_eq!(ended[0]["how"], how, "{end:?}");
        assert_eq!(verdicts(&events), [Value::Null; 0], "{end:?}: it came to none");
        assert!(!is_there(&scratch, "b.txt"), "{end:?}");
    }
}
