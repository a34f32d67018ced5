//! If a gate is missing, crashes or hangs, the call does not run.

use bailiwick_runner::agents::adapter::Gate;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::Stage;

fn denied(cli: Cli, command: &[&str]) {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(cli, &model.base_url());
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    assignment.gate = Some(Gate { command, seconds: 2 });
    stage.launch(cli, &assignment);
    assert!(!stage.pushed(), "{cli:?} pushed although its gate is broken");
    let result = model.result("call_0_0_0");
    // Claude Code itself denies a call that is not explicitly allowed.
    let expected = match cli {
        Cli::Claude => "denied because Claude Code is running in don't ask mode",
        Cli::Codex | Cli::Gemini | Cli::OpenCode => "the gate could not run, so the call is denied",
    };
    assert!(result.contains(expected), "{cli:?}: {result}");
}

fn broken_gates_deny(cli: Cli) {
    denied(cli, &["/nonexistent/gate"]);
    denied(cli, &["/bin/sh", "-c", "kill -ABRT $$"]);
    denied(cli, &["/bin/sh", "-c", "exec sleep 60"]);
}

#[test]
fn claude_code_is_denied_by_a_broken_gate() {
    broken_gates_deny(Cli::Claude);
}

/// Codex starts no gate process: without the HTTP gate it does not start.
#[test]
fn codex_does_not_start_without_its_gate() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(Cli::Codex, &model.base_url());
    // The model runs, but without the HTTP gate.
    assignment.model_url = model.base_url();
    let outcome = stage.launch(Cli::Codex, &assignment);
    assert!(!stage.pushed(), "it pushed although no gate could be asked");
    assert!(outcome.code != Some(0), "{}", outcome.out);
    assert!(!outcome.verdict.completed, "{}", outcome.out);
    let requests =
        model.requests().iter().filter(|request| request.path.contains("responses")).count();
    assert_eq!(requests, 0, "the model received a request");
}

#[test]
fn gemini_is_denied_by_a_broken_gate() {
    broken_gates_deny(Cli::Gemini);
}

#[test]
fn opencode_is_denied_by_a_broken_gate() {
    broken_gates_deny(Cli::OpenCode);
}
