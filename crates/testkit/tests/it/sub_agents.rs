//! A gate holds the agents that an agent starts, too.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{REASON, Stage};

/// Codex does not wait for its sub-agents; the end of the script does. Ten seconds at most.
const WAIT: &str =
    "n=0; while [ ! -e done.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done";

fn sub_agent_is_held(cli: Cli) {
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
    let told = model.result("call_1_0_0");
    assert!(told.contains(REASON), "the sub-agent was told: {told}");
    if cli != Cli::Codex {
        let told = model.result("call_0_0_0");
        assert!(told.contains("part two is done"), "the agent was told: {told}");
    }
}

#[test]
fn a_sub_agent_of_claude_is_held() {
    sub_agent_is_held(Cli::Claude);
}

#[test]
fn a_sub_agent_of_codex_is_held() {
    sub_agent_is_held(Cli::Codex);
}

#[test]
fn a_sub_agent_of_gemini_is_held() {
    sub_agent_is_held(Cli::Gemini);
}

#[test]
fn a_sub_agent_of_opencode_is_held() {
    sub_agent_is_held(Cli::OpenCode);
}
