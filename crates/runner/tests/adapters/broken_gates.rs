//! A gate that is missing, crashes or hangs: the call does not run.

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
    let told = model.result("call_0_0_0");
    // Claude Code denies by itself what nobody allows in words.
    let words = match cli {
        Cli::Claude => "denied because Claude Code is running in don't ask mode",
        Cli::Codex | Cli::Gemini | Cli::OpenCode => "the gate could not run, so the call is denied",
    };
    assert!(told.contains(words), "{cli:?}: {told}");
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

/// There is nothing that it starts: without somebody to ask it does not begin.
#[test]
fn codex_does_not_begin_without_its_gate() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(Cli::Codex, &model.base_url());
    // The model is there, and no desk beside it.
    assignment.model_url = model.base_url();
    let outcome = stage.launch(Cli::Codex, &assignment);
    assert!(!stage.pushed(), "it pushed although nobody could be asked");
    assert!(outcome.code != Some(0), "{}", outcome.out);
    assert!(!outcome.verdict.completed, "{}", outcome.out);
    let asked =
        model.requests().iter().filter(|request| request.path.contains("responses")).count();
    assert_eq!(asked, 0, "the model was asked");
}

#[test]
fn gemini_is_denied_by_a_broken_gate() {
    broken_gates_deny(Cli::Gemini);
}

#[test]
fn opencode_is_denied_by_a_broken_gate() {
    broken_gates_deny(Cli::OpenCode);
}
