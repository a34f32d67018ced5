//! The real CLIs start the sub-agents of a task, pass them their role, and the gate stops their calls.

use bailiwick_model::task::{Line, SubAgent};
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::json;

use crate::stage::{REASON, Stage};

/// Codex does not wait for its sub-agents; the end of the script waits, ten seconds at most.
const WAIT: &str =
    "n=0; while [ ! -e done.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done";

const ROLE: &str = "WORDS-FOR-THE-HELPER";
const TASK: &str = "This is PART-TWO: push, then make done.txt.";

fn start(cli: Cli) -> Call {
    let part = "A part";
    match cli {
        Cli::Claude => Call::raw(
            "Agent",
            json!({"description": part, "prompt": TASK, "subagent_type": "helper"}),
        ),
        Cli::Codex => Call::raw(
            "multi_agent_v1.spawn_agent",
            json!({"message": TASK, "agent_type": "helper"}),
        ),
        Cli::Gemini => Call::raw("invoke_agent", json!({"agent_name": "helper", "prompt": TASK})),
        Cli::OpenCode => Call::raw(
            "task",
            json!({"description": part, "prompt": TASK, "subagent_type": "helper"}),
        ),
    }
}

fn sub_agent_is_gated(cli: Cli) {
    let stage = Stage::new();
    let script = Script::new(vec![
        Turn::Calls(vec![start(cli)]),
        Turn::Calls(vec![Call::shell(WAIT)]),
        Turn::say("finished"),
    ]);
    let model = ScriptedModel::start(script.when(
        "PART-TWO",
        vec![
            Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
            Turn::Calls(vec![Call::shell("touch done.txt")]),
            Turn::say("part two is done"),
        ],
    ));
    let mut assignment = stage.assignment(cli, &model.base_url());
    assignment.sub_agents = vec![SubAgent {
        name: Line::try_from("helper".to_owned()).unwrap(),
        description: "Helps with parts".to_owned(),
        prompt: ROLE.to_owned(),
        tools: (cli != Cli::Codex).then(|| vec!["Bash".to_owned()]),
        model: None,
    }];
    let outcome = stage.launch(cli, &assignment);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.out, outcome.err);
    assert!(!stage.pushed(), "it pushed");
    assert_eq!(stage.text("done.txt").as_deref(), Some(""), "{:#?}", model.results());
    let result = model.result("call_1_0_0");
    assert!(result.contains(REASON), "the sub-agent received: {result}");
    let requests = model.requests();
    let role = |body: &serde_json::Value| body.to_string().contains(ROLE);
    assert!(requests.iter().any(|request| role(&request.body)), "it received its role");
}

#[test]
fn claude_code_sub_agent_is_gated() {
    sub_agent_is_gated(Cli::Claude);
}

#[test]
fn codex_sub_agent_is_gated() {
    sub_agent_is_gated(Cli::Codex);
}

#[test]
fn gemini_sub_agent_is_gated() {
    sub_agent_is_gated(Cli::Gemini);
}

#[test]
fn opencode_sub_agent_is_gated() {
    sub_agent_is_gated(Cli::OpenCode);
}
