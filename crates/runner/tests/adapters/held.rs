//! A launch reaches the real CLI completely: the gate is announced and enforced, and everything in the
//! assignment is in the request to the model, in a repository that tries to disable the gate.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Request, Script, ScriptedModel, Turn};
use serde_json::Value;

use crate::stage::{
    INSTRUCTION, OWN_INSTRUCTION, OWN_SKILL, REASON, Stage, instructions, model_of,
};

const SYSTEM: &str = "SYSTEM-WORDS of the task";

fn gate_is_enforced(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::Calls(vec![Call::write(stage.path("made.txt"), "made\n")]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(cli, &model.base_url());
    assignment.system_prompt = Some(SYSTEM.to_owned());
    assignment.effort = Some(model_of(cli).1.to_owned());
    assignment.instructions = instructions();
    assignment.tools = Some(["Bash", "Read", "Write", "Edit"].map(str::to_owned).to_vec());
    let outcome = stage.launch(cli, &assignment);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.out, outcome.err);
    assert!(!stage.pushed(), "it pushed");
    assert_eq!(stage.text("made.txt").as_deref(), Some("made\n"), "{:#?}", model.results());
    let result = model.result("call_0_0_0");
    assert!(result.contains(REASON), "the model received: {result}");
    assert!(outcome.verdict.completed, "{:?}", outcome.verdict);
    assert_eq!(outcome.verdict.words, "finished");

    let gate_calls = stage.gate_calls();
    let words: Vec<&str> = gate_calls.iter().map(|(words, _)| words.as_str()).collect();
    assert!(words[0].ends_with("--announce"), "announced first: {words:?}");
    assert_eq!(words.iter().filter(|words| !words.ends_with("--announce")).count(), 2, "{words:?}");
    for (words, call) in &gate_calls[1..] {
        assert!(words.contains(&format!("--dialect {}", dialect(cli))), "{words}");
        assert!(call.is_object());
    }
    let requests = model.requests();
    let request = requests.iter().find(|request| offers_tools(&request.body)).unwrap();
    reaches_the_model(cli, request);
}

fn dialect(cli: Cli) -> &'static str {
    match cli {
        Cli::Claude => "claude",
        Cli::Codex => "codex",
        Cli::Gemini => "gemini",
        Cli::OpenCode => "opencode",
    }
}

fn offers_tools(body: &Value) -> bool {
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

fn reaches_the_model(cli: Cli, request: &Request) {
    let Request { body, path, .. } = request;
    let text = body.to_string();
    let (model, effort) = model_of(cli);
    match cli {
        Cli::Claude => {
            assert_eq!(body["model"], model);
            assert_eq!(body["output_config"]["effort"], effort);
        }
        Cli::Codex => {
            assert_eq!(body["model"], model);
            assert_eq!(body["reasoning"]["effort"], effort);
        }
        Cli::Gemini => {
            assert!(path.contains(model), "{path}");
            assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 1024);
        }
        Cli::OpenCode => {
            assert_eq!(body["model"], model);
            assert_eq!(body["reasoning_effort"], effort);
        }
    }
    assert!(text.contains(SYSTEM), "the system prompt");
    assert!(text.contains(INSTRUCTION), "the instructions");
    // Gemini CLI reads the GEMINI.md of every folder that it may work in, whatever its settings.
    assert_eq!(
        text.contains(OWN_INSTRUCTION),
        cli == Cli::Gemini,
        "the worktree's own instructions"
    );
    assert!(!text.contains(OWN_SKILL), "the worktree's own skills");
    let names = tool_names(body);
    let (present, absent): (&[&str], &[&str]) = match cli {
        Cli::Claude => (&["Bash", "Edit", "Read", "Write"], &["Agent", "WebFetch", "Skill"]),
        Cli::Codex => (&["apply_patch", "exec_command"], &["create_goal", "web_search"]),
        Cli::Gemini => (&["run_shell_command", "write_file"], &["web_fetch", "invoke_agent"]),
        Cli::OpenCode => (&["bash", "write"], &["webfetch", "task"]),
    };
    for tool in present {
        assert!(names.iter().any(|name| name == tool), "{tool} is not in {names:?}");
    }
    for tool in absent {
        assert!(names.iter().all(|name| name != tool), "{tool} is in {names:?}");
    }
}

fn tool_names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().unwrap().iter();
    let lists = tools.flat_map(|tool| match tool["functionDeclarations"].as_array() {
        Some(declared) => declared.clone(),
        None => vec![tool.clone()],
    });
    let name = |tool: Value| {
        let names = [&tool["name"], &tool["function"]["name"], &tool["type"]];
        names.iter().find_map(|name| name.as_str()).unwrap().to_owned()
    };
    lists.map(name).collect()
}

#[test]
fn claude_code_is_gated_and_gets_the_complete_assignment() {
    gate_is_enforced(Cli::Claude);
}

#[test]
fn codex_is_gated_and_gets_the_complete_assignment() {
    gate_is_enforced(Cli::Codex);
}

#[test]
fn gemini_is_gated_and_gets_the_complete_assignment() {
    gate_is_enforced(Cli::Gemini);
}

#[test]
fn opencode_is_gated_and_gets_the_complete_assignment() {
    gate_is_enforced(Cli::OpenCode);
}

/// Positive control: without a gate the same push succeeds.
#[test]
fn without_a_gate_the_same_call_runs() {
    for cli in Cli::ALL {
        let stage = Stage::new();
        let model = ScriptedModel::start(Script::new(vec![
            Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
            Turn::say("finished"),
        ]));
        let mut assignment = stage.assignment(cli, &model.base_url());
        assignment.gate = None;
        stage.launch(cli, &assignment);
        assert!(stage.pushed(), "{cli:?}: {:?}", model.results());
        assert_eq!(stage.gate_calls(), []);
    }
}
