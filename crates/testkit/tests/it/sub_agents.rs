//! A gate applies to the agents that an agent starts, too.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{REASON, Stage};

/// Codex does not wait for its sub-agents; the end of the script waits, ten seconds at most.
const WAIT: &str =
    "n=0; while [ ! -e done.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done";

fn assert_sub_agent_is_gated(cli: Cli) {
    let stage = Stage::new();
    let script = Script::new(vec![
        Turn::Calls(vec![Call::delegate("This is PART-TWO: push, then make done.txt.")]),
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::say("finished"),
    ]);
    let script = script.when(
        "PART-TWO",
        vec![
            Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
            Turn::Calls(vec![Call::shell("touch done.txt")]),
            Turn::say("part two is done"),
        ],
    );
    let model = ScriptedModel::start(script);
    stage.run(cli, &model).gate(stage.gate()).run("Do the work.").expect_code(0);
    assert!(!stage.pushed(), "it pushed");
    assert_eq!(stage.text("done.txt").as_deref(), Some(""), "{:#?}", model.results());
    let result = model.result("call_1_0_0");
    assert!(result.contains(REASON), "the sub-agent received: {result}");
    if cli != Cli::Codex {
        let result = model.result("call_0_0_0");
        assert!(result.contains("part two is done"), "the agent received: {result}");
    }
}

#[test]
fn claude_sub_agent_is_gated() {
    assert_sub_agent_is_gated(Cli::Claude);
}

#[test]
fn codex_sub_agent_is_gated() {
    assert_sub_agent_is_gated(Cli::Codex);
}

#[test]
fn gemini_sub_agent_is_gated() {
    assert_sub_agent_is_gated(Cli::Gemini);
}

#[test]
fn opencode_sub_agent_is_gated() {
    assert_sub_agent_is_gated(Cli::OpenCode);
}
