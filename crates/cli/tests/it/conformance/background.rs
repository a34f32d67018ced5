//! What Claude Code leaves in the background when its turn ends: agents still get responses, shells are
//! not waited for.

use std::time::{Duration, Instant};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::json;

use super::stage::{GIT, PUSH, Stage};

#[test]
fn background_agents_get_responses_after_the_turn_that_started_them() {
    let stage = Stage::new(Cli::Claude);
    let agent = stage.agent("behind");
    let sub_agent_turns = vec![
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
    let ended = agent.run(Script::new(turns).when("PART-TWO", sub_agent_turns));
    ended.expect("completed", 0);
    let results = ended.model.results();
    for name in ["one", "two", "three"] {
        assert!(agent.text(&format!("src/{name}.txt")).is_some(), "{name}: {results:#?}");
    }
    assert_eq!(agent.pushed(), [""; 0], "{results:#?}");
    agent.expect_denied(PUSH, GIT);
    agent.expect_push_possible();
    agent.expect_no_processes();
}

#[test]
fn background_shell_does_not_delay_the_end_of_a_run() {
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
    // The shell would have run for longer than this.
    assert!(begin.elapsed() < Duration::from_secs(1000));
    agent.expect_no_processes();
}
