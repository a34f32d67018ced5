//! A gate stops a push in every CLI; without it the push happens.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{REASON, Stage, wrapped};

/// Writes a file and pushes in the same turn, then changes the file and finishes.
fn script(stage: &Stage) -> Script {
    let notes = stage.path("notes.txt");
    Script::new(vec![
        Turn::Calls(vec![
            Call::write(&notes, "one\ntwo\n"),
            Call::shell("git push origin HEAD:main"),
        ]),
        Turn::Calls(vec![Call::read(&notes)]),
        Turn::Calls(vec![Call::edit(&notes, "two\n", "three\n")]),
        Turn::say("finished"),
    ])
}

fn assert_gated(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    let run = stage.run(cli, &model).gate(wrapped(&stage.gate()));
    let finished = run.run("Do the work.").expect_code(0);
    assert!(!stage.pushed(), "it pushed");
    assert_eq!(stage.text("notes.txt").as_deref(), Some("one\nthree\n"));
    let result = model.result("call_0_0_1");
    assert!(result.contains(REASON), "the model received: {result}");
    let read = model.result("call_0_1_0");
    assert!(read.contains("two") && !read.contains(REASON), "the model has read: {read}");
    assert_eq!(stage.gate_calls().len(), 4, "{:#?}", stage.gate_calls());
    assert!(finished.out.contains("finished"), "{}", finished.out);
}

fn assert_pushes_without_a_gate(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    stage.run(cli, &model).run("Do the work.").expect_code(0);
    assert!(stage.pushed(), "{:#?}", model.results());
    assert_eq!(stage.text("notes.txt").as_deref(), Some("one\nthree\n"));
    assert!(stage.gate_calls().is_empty());
}

#[test]
fn claude_is_stopped_by_the_gate() {
    assert_gated(Cli::Claude);
}

#[test]
fn codex_is_stopped_by_the_gate() {
    assert_gated(Cli::Codex);
}

#[test]
fn gemini_is_stopped_by_the_gate() {
    assert_gated(Cli::Gemini);
}

#[test]
fn opencode_is_stopped_by_the_gate() {
    assert_gated(Cli::OpenCode);
}

#[test]
fn claude_pushes_without_a_gate() {
    assert_pushes_without_a_gate(Cli::Claude);
}

#[test]
fn codex_pushes_without_a_gate() {
    assert_pushes_without_a_gate(Cli::Codex);
}

#[test]
fn gemini_pushes_without_a_gate() {
    assert_pushes_without_a_gate(Cli::Gemini);
}

#[test]
fn opencode_pushes_without_a_gate() {
    assert_pushes_without_a_gate(Cli::OpenCode);
}

#[test]
fn codex_skips_a_gate_without_a_trust_hash() {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    let hook = serde_json::json!({"type": "command", "command": stage.gate(), "timeout": 15});
    let hooks = serde_json::json!({"hooks": {"PreToolUse": [{"matcher": ".*", "hooks": [hook]}]}});
    let run = stage.run(Cli::Codex, &model).file(".codex/hooks.json", &hooks.to_string());
    run.run("Do the work.").expect_code(0);
    assert!(stage.gate_calls().is_empty(), "the trust hash is no longer needed");
    assert!(stage.pushed());
}
