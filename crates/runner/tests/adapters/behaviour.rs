//! What is known about each program's hooks, compared with the real program: after a run with calls
//! that are allowed, denied and refused by the program itself, every result has a decision.

use bailiwick_lifecycle::supervision::CallTracker;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::stage::{Stage, adapter};

/// Waits at most ten seconds for the inner agent to finish, and then until its model has the result.
const WAIT: &str =
    "n=0; while [ ! -e inner.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done; sleep 4";

const INNER: &str = "touch inner.txt";

/// Calls that must be denied, among some that are allowed.
fn calls(cli: Cli) -> Vec<(&'static str, Value)> {
    match cli {
        Cli::Claude => vec![
            ("Bash", json!({"command": "echo hello", "description": "x"})),
            ("Bash", json!({"command": "git push", "description": "x"})),
            ("MultiEdit", json!({})),
            ("Frobnicate", json!({})),
            ("Write", json!({"x": 1})),
            ("Read", json!({"file_path": "/nonexistent"})),
            ("Skill", json!({"skill": "nope"})),
            ("Edit", json!({"file_path": "AGENTS.md", "old_string": "zz", "new_string": "y"})),
            ("Edit", json!({"file_path": "nope.md", "old_string": "zz", "new_string": "y"})),
            ("Edit", json!({"file_path": "AGENTS.md", "old_string": "y", "new_string": "y"})),
            ("TaskList", json!({})),
            ("TaskGet", json!({"taskId": "7"})),
            ("TaskCreate", json!({"subject": "a", "description": "b"})),
            ("ReportFindings", json!({"findings": []})),
            ("Agent", json!({"description": "a", "prompt": "x", "subagent_type": "nope"})),
            (
                "Agent",
                json!({"description": "a", "prompt": "PART-TWO", "subagent_type": "general-purpose"}),
            ),
        ],
        Cli::Codex => vec![
            ("exec_command", json!({"cmd": "echo hello"})),
            ("exec_command", json!({"cmd": "git push"})),
            ("exec_command", json!({"x": 1})),
            ("exec_command", json!({"cmd": "true", "yield_time_ms": "no"})),
            ("frobnicate", json!({})),
            ("frobnicate", json!("free text")),
            ("apply_patch", json!("garbage")),
            (
                "apply_patch",
                json!("*** Begin Patch\n*** Update File: nope\n@@\n-a\n+b\n*** End Patch\n"),
            ),
            ("view_image", json!({"path": "/nonexistent.png"})),
            ("get_goal", json!({})),
            ("request_user_input", json!({"questions": []})),
            ("multi_agent_v1.spawn_agent", json!({"message": "PART-TWO"})),
            // It does not wait for its agents by itself.
            ("exec_command", json!({"cmd": WAIT, "yield_time_ms": 20000})),
        ],
        Cli::Gemini => vec![
            ("run_shell_command", json!({"command": "echo hello", "description": "x"})),
            ("run_shell_command", json!({"command": "git push"})),
            ("run_shell_command", json!({"command": ""})),
            ("run_shell_command", json!({"command": "ls", "dir_path": "/etc"})),
            ("frobnicate", json!({})),
            ("write_file", json!({"x": 1})),
            ("write_file", json!({"file_path": 7, "content": "x"})),
            ("write_file", json!({"file_path": "/etc/nope", "content": "x"})),
            ("write_file", json!({"file_path": "made.txt", "content": "x"})),
            ("read_file", json!({"file_path": "nope"})),
            (
                "replace",
                json!({
                    "file_path": "AGENTS.md", "instruction": "i", "old_string": "zz", "new_string": "y",
                }),
            ),
            ("write_todos", json!({"todos": []})),
            ("glob", json!({"pattern": "*.md"})),
            ("update_topic", json!({"title": "t", "summary": "s", "strategic_intent": "x"})),
            ("activate_skill", json!({"name": "nope"})),
            ("invoke_agent", json!({"agent_name": "nope", "prompt": "x"})),
            ("invoke_agent", json!({"agent_name": "generalist", "prompt": "PART-TWO"})),
        ],
        Cli::OpenCode => vec![
            ("bash", json!({"command": "echo hello", "description": "x"})),
            ("bash", json!({"command": "git push", "description": "x"})),
            ("bash", json!({})),
            ("frobnicate", json!({})),
            ("write", json!({"x": 1})),
            ("read", json!({"filePath": "nope"})),
            ("edit", json!({"filePath": "AGENTS.md", "oldString": "zz", "newString": "y"})),
            ("todowrite", json!({"todos": []})),
            ("skill", json!({"name": "nope"})),
            ("task", json!({"description": "a", "prompt": "x", "subagent_type": "nope"})),
            ("task", json!({"description": "a", "prompt": "PART-TWO", "subagent_type": "general"})),
        ],
    }
}

fn shell(cli: Cli, command: &str) -> Call {
    let (tool, input) = adapter(cli).shell_call(command);
    Call::raw(&tool, input)
}

/// Every result without a decision, found by a tracker that knows the program's habits.
fn undecided_results(cli: Cli, gated: bool) -> Vec<String> {
    let stage = Stage::new();
    let calls = calls(cli);
    let mut turns: Vec<Turn> = calls
        .iter()
        .map(|(tool, input)| Turn::Calls(vec![Call::raw(tool, input.clone())]))
        .collect();
    turns.push(Turn::say("finished"));
    let inner = vec![Turn::Calls(vec![shell(cli, INNER)]), Turn::say("part two is done")];
    let model = ScriptedModel::start(Script::new(turns).when("PART-TWO", inner));
    let mut assignment = stage.assignment(cli, &model.base_url());
    if !gated {
        assignment.gate = None;
    }
    stage.launch(cli, &assignment);

    let mut watch = CallTracker::new(adapter(cli).behaviour());
    for (turn, (tool, input)) in calls.iter().enumerate() {
        let tool = tool.rsplit('.').next().unwrap();
        watch.on_tool_call(&format!("call_0_{turn}_0"), tool, input);
    }
    let (tool, input) = adapter(cli).shell_call(INNER);
    watch.on_tool_call("call_1_0_0", &tool, &input);
    watch.on_tool_call("call_1_1_0", "complete_task", &Value::Null);
    for (_, call) in stage.gate_calls() {
        let id = ["tool_use_id", "callID"].iter().find_map(|key| call[*key].as_str());
        let tool = call["tool_name"].as_str().unwrap_or_default();
        watch.on_decision(id, tool, &call["tool_input"]);
    }
    let results = model.results();
    assert!(results.len() >= calls.len(), "all calls have results: {results:#?}");
    let undecided = results.iter().filter_map(|result| {
        let undecided = watch.on_result(&result.call, None, &result.text, None).err()?;
        Some(format!("{undecided}: {}", result.text))
    });
    undecided.collect()
}

fn habits_match(cli: Cli) {
    let undecided = undecided_results(cli, true);
    assert!(undecided.is_empty(), "{undecided:#?}");
    let ungated = undecided_results(cli, false);
    let hello = ungated.iter().any(|result| result.contains("hello"));
    let inner = ungated.iter().any(|result| result.contains("call_1_0_0"));
    assert!(hello && inner, "a call that runs without a decision is found: {ungated:#?}");
}

#[test]
fn claude_code_has_the_known_habits() {
    habits_match(Cli::Claude);
}

#[test]
fn codex_has_the_known_habits() {
    habits_match(Cli::Codex);
}

#[test]
fn gemini_has_the_known_habits() {
    habits_match(Cli::Gemini);
}

#[test]
fn opencode_has_the_known_habits() {
    habits_match(Cli::OpenCode);
}

#[test]
fn codex_input_to_a_running_program_is_never_treated_as_harmless() {
    let behaviour = adapter(Cli::Codex).behaviour();
    assert!(!behaviour.tools_without_hook.contains(&"write_stdin"));
    let mut watch = CallTracker::new(behaviour);
    watch.on_tool_call("call", "write_stdin", &json!({"session_id": 1, "chars": "git push\n"}));
    assert!(watch.on_result("call", None, "Chunk ID: 1\npushed", None).is_err());
    watch.on_tool_call("closed", "write_stdin", &json!({"session_id": 1, "chars": "git push\n"}));
    let closed =
        "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true";
    assert_eq!(watch.on_result("closed", None, closed, None), Ok(true), "nothing was typed");
}
