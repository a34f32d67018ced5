//! What Claude Code leaves in the background when its turn is over: agents are still answered, shells are
//! not waited for.

use std::time::{Duration, Instant};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::json;

use super::stage::{GIT, PUSH, Stage};

#[test]
fn agents_in_the_background_are_answered_after_the_turn_that_started_them() {
    let stage = Stage::new(Cli::Claude);
    let agent = stage.agent("behind");
    let part = vec![
        Turn::Calls(vec![Call::shell("sleep 2; echo one > src/one.txt")]),
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo two > src/two.txt")]),
        Turn::say("part two is done"),
    ];
    let delegate = json!({
        "description": "a part",
        "prompt": "This is PART-TWO.",
        "subagent_type": "general-purpose",
        "run_in_background": true,
    });
    let turns = vec![
        Turn::Calls(vec![Call::raw("Agent", delegate)]),
        Turn::say("it is at work"),
        Turn::Calls(vec![Call::shell("echo three > src/three.txt")]),
        Turn::say("it is done"),
    ];
    let ended = agent.run(Script::new(turns).when("PART-TWO", part));
    ended.expect("completed", 0);
    let told = ended.model.results();
    for name in ["one", "two", "three"] {
        assert!(agent.text(&format!("src/{name}.txt")).is_some(), "{name}: {told:#?}");
    }
    assert_eq!(agent.pushed(), [""; 0], "{told:#?}");
    agent.denied(PUSH, GIT);
    agent.could_push();
    agent.nothing_runs();
}

#[test]
fn a_shell_in_the_background_does_not_keep_a_run_from_its_end() {
    let stage = Stage::new(Cli::Claude);
    let agent = stage.agent("server");
    let serve = json!({
        "command": "echo on > src/on.txt; exec sleep 1000",
        "description": "a server",
        "run_in_background": true,
    });
    let begin = Instant::now();
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![Call::raw("Bash", serve)]),
        Turn::Calls(vec![Call::shell("until [ -e src/on.txt ]; do sleep 0.1; done")]),
        Turn::say("it serves"),
    ]));
    ended.expect("completed", 0);
    assert!(agent.text("src/on.txt").is_some());
    // Longer than this the shell would have gone on.
    assert!(begin.elapsed() < Duration::from_secs(1000));
    agent.nothing_runs();
}
