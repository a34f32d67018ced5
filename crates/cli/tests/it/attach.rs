//! Attaching to a running agent, and resuming a stopped one.

use std::process::Stdio;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use crate::BAILIWICK;
use crate::run::{events, is_alive, kinds, run, scene, shell, wait_for, write};
use crate::screens::on_terminal;

/// An agent in the background that sleeps at its last step.
fn sleeping_agent() -> Scratch {
    let steps = [write("outside.txt", "no\n"), shell("touch src/began; sleep 600")];
    let scratch = scene(&[&steps[0], &steps[1]]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/began").exists());
    scratch
}

#[test]
fn detaching_does_not_stop_the_run() {
    let scratch = sleeping_agent();
    // The run must be older than the attached process, to tell their elapsed times apart.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let line = "env --default-signal=INT timeout --foreground -s INT 1 $B attach one";
    let screen = on_terminal(&scratch, 80, line);
    assert!(screen.contains(" working · 1 denied"), "the status of the run is not shown: {screen}");
    assert!(!screen.contains("preparing") && !screen.contains(" ms "), "{screen}");
    assert!(screen.contains("`one` goes on"), "{screen}");
    assert!(screen.contains("bailiwick stop one"), "{screen}");
    assert!(is_alive(&scratch, "one"), "the run was stopped");

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
fn verify_suggests_commands_that_fit_the_state_of_the_run() {
    let scratch = sleeping_agent();
    let running = run(&scratch, &["verify", "one"]);
    for verb in ["bailiwick logs -f one", "bailiwick attach one", "bailiwick stop one"] {
        assert!(running.err.contains(verb), "{}", running.err);
    }
    assert!(!running.err.contains("land") && !running.err.contains("respawn"), "{}", running.err);
    run(&scratch, &["stop", "one"]).expect_code(0);
    let stopped = run(&scratch, &["verify", "one"]);
    assert!(stopped.err.contains("bailiwick resume one"), "{}", stopped.err);
    assert!(!stopped.err.contains("land") && !stopped.err.contains("respawn"), "{}", stopped.err);
}

#[test]
fn message_to_a_stopped_agent_resumes_it() {
    let first_step = shell("test -e src/first && touch src/second; touch src/first");
    let scratch = scene(&[&first_step, &shell("test -e src/second || sleep 600")]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/first").exists());
    run(&scratch, &["stop", "one"]).expect_code(0);
    let attached = run(&scratch, &["attach", "one", "go on"]).expect_code(0);
    assert!(attached.err.contains("`one` is stopped: it is resumed"), "{}", attached.err);
    assert_eq!(kinds(&events(&scratch, "one"), "message").len(), 1);
}

#[test]
fn run_is_resumed_in_the_background_with_message_and_budget() {
    let first_step = shell("test -e src/first && touch src/second; touch src/first");
    let scratch = scene(&[&first_step, &shell("test -e src/second || sleep 600")]);
    run(&scratch, &["run", "-d", "task.toml", "--agent-id", "one"]).expect_code(0);
    wait_for(|| scratch.state().join("worktrees/one/src/first").exists());
    let refused = run(&scratch, &["resume", "-d", "one"]);
    assert_ne!(refused.code, 0, "a running agent was resumed: {}", refused.err);
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
    let messages = kinds(&events(&scratch, "one"), "message");
    assert_eq!(messages.iter().map(|event| &event["text"]).collect::<Vec<_>>(), ["hurry up"]);
    let finished = run(&scratch, &["resume", "-d", "one"]).expect_code(2);
    assert!(finished.err.contains("`one` is done"), "{}", finished.err);
}
