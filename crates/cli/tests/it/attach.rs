//! Looking at an agent that is at work, and taking one up again.

use std::process::Stdio;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use crate::BAILIWICK;
use crate::run::{events, is_alive, kinds, run, scene, shell, wait_for, write};
use crate::screens::on_terminal;

/// An agent in the background that sleeps at its last step.
fn asleep() -> Scratch {
    let steps = [write("outside.txt", "no\n"), shell("touch src/began; sleep 600")];
    let scratch = scene(&[&steps[0], &steps[1]]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/began").exists());
    scratch
}

#[test]
fn attaching_shows_the_status_and_leaves_the_run_running() {
    let scratch = asleep();
    // So that the run is older than what looks at it.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let line = "env --default-signal=INT timeout --foreground -s INT 1 $B attach one";
    let shown = on_terminal(&scratch, 80, line);
    assert!(shown.contains(" working · 1 denied"), "the status is the run's: {shown}");
    assert!(!shown.contains("preparing") && !shown.contains(" ms "), "{shown}");
    assert!(shown.contains("`one` goes on"), "{shown}");
    assert!(shown.contains("bailiwick stop one"), "{shown}");
    assert!(is_alive(&scratch, "one"), "it was not stopped");

    let mut command = scratch.command("env");
    command.args(["--default-signal=INT,TERM", "timeout", "-s", "INT", "1", BAILIWICK]);
    command.args(["attach", "one"]).stdin(Stdio::null());
    let piped = Ran::from(command.output().unwrap());
    assert!(piped.err.contains("`one` goes on"), "{}", piped.err);
    assert!(!piped.err.contains('\u{1b}'), "{:?}", piped.err);
    run(&scratch, &["stop", "one"]).expect_code(0);
    assert!(!is_alive(&scratch, "one"));
}

#[test]
fn verify_names_what_fits_an_agent_at_work_and_a_stopped_one() {
    let scratch = asleep();
    let at_work = run(&scratch, &["verify", "one"]);
    for verb in ["bailiwick logs -f one", "bailiwick attach one", "bailiwick stop one"] {
        assert!(at_work.err.contains(verb), "{}", at_work.err);
    }
    assert!(!at_work.err.contains("land") && !at_work.err.contains("respawn"), "{}", at_work.err);
    run(&scratch, &["stop", "one"]).expect_code(0);
    let stopped = run(&scratch, &["verify", "one"]);
    assert!(stopped.err.contains("bailiwick resume one"), "{}", stopped.err);
    assert!(!stopped.err.contains("land") && !stopped.err.contains("respawn"), "{}", stopped.err);
}

#[test]
fn a_stopped_agent_that_is_told_something_is_said_to_go_on() {
    let again = shell("test -e src/first && touch src/second; touch src/first");
    let scratch = scene(&[&again, &shell("test -e src/second || sleep 600")]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/first").exists());
    run(&scratch, &["stop", "one"]).expect_code(0);
    let told = run(&scratch, &["attach", "one", "go on"]).expect_code(0);
    assert!(told.err.contains("`one` is stopped: it is resumed"), "{}", told.err);
    assert_eq!(kinds(&events(&scratch, "one"), "message").len(), 1);
}

#[test]
fn a_run_is_taken_up_again_in_the_background_with_words_and_a_budget() {
    let again = shell("test -e src/first && touch src/second; touch src/first");
    let scratch = scene(&[&again, &shell("test -e src/second || sleep 600")]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/first").exists());
    let held = run(&scratch, &["resume", "-d", "one"]);
    assert_ne!(held.code, 0, "it is at work: {}", held.err);
    run(&scratch, &["stop", "one"]).expect_code(0);
    let arguments = ["resume", "-d", "one", "-m", "hurry up", "--turns", "77"];
    let resumed = run(&scratch, &arguments).expect_code(0);
    assert_eq!(resumed.out, "one\n");
    assert!(resumed.err.contains("bailiwick logs -f one"), "{}", resumed.err);
    wait_for(|| run(&scratch, &["ledger", "list", "--status", "done"]).out.contains("one"));
    let cost: serde_json::Value =
        serde_json::from_str(&run(&scratch, &["cost", "one", "-o", "json"]).expect_code(0).out)
            .unwrap();
    let turns: Vec<_> =
        cost.as_array().unwrap().iter().map(|attempt| &attempt["budget"]["turns"]).collect();
    assert_eq!(turns, [&serde_json::Value::Null, &serde_json::json!(77)], "{cost}");
    let said = kinds(&events(&scratch, "one"), "message");
    assert_eq!(said.iter().map(|event| &event["text"]).collect::<Vec<_>>(), ["hurry up"]);
    let finished = run(&scratch, &["resume", "-d", "one"]).expect_code(2);
    assert!(finished.err.contains("`one` is done"), "{}", finished.err);
}
