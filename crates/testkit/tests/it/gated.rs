//! A gate holds a push back in every CLI; without it the push happens.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{REASON, Stage, wrapped};

/// Writes a file and pushes at once, then changes the file and is done.
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

fn held_by_the_gate(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    let run = stage.run(cli, &model).gate(wrapped(&stage.gate()));
    let ran = run.run("Do the work.").expect_code(0);
    assert!(!stage.pushed(), "it pushed");
    assert_eq!(stage.text("notes.txt").as_deref(), Some("one\nthree\n"));
    let told = model.result("call_0_0_1");
    assert!(told.contains(REASON), "the model was told: {told}");
    let read = model.result("call_0_1_0");
    assert!(read.contains("two") && !read.contains(REASON), "the model has read: {read}");
    assert_eq!(stage.asked().len(), 4, "{:#?}", stage.asked());
    assert!(ran.out.contains("finished"), "{}", ran.out);
}

fn pushes_without_a_gate(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    stage.run(cli, &model).run("Do the work.").expect_code(0);
    assert!(stage.pushed(), "{:#?}", model.results());
    assert_eq!(stage.text("notes.txt").as_deref(), Some("one\nthree\n"));
    assert!(stage.asked().is_empty());
}

#[test]
fn claude_is_held_by_the_gate() {
    held_by_the_gate(Cli::Claude);
}

#[test]
fn codex_is_held_by_the_gate() {
    held_by_the_gate(Cli::Codex);
}

#[test]
fn gemini_is_held_by_the_gate() {
    held_by_the_gate(Cli::Gemini);
}

#[test]
fn opencode_is_held_by_the_gate() {
    held_by_the_gate(Cli::OpenCode);
}

#[test]
fn claude_pushes_without_a_gate() {
    pushes_without_a_gate(Cli::Claude);
}

#[test]
fn codex_pushes_without_a_gate() {
    pushes_without_a_gate(Cli::Codex);
}

#[test]
fn gemini_pushes_without_a_gate() {
    pushes_without_a_gate(Cli::Gemini);
}

#[test]
fn opencode_pushes_without_a_gate() {
    pushes_without_a_gate(Cli::OpenCode);
}

#[test]
fn codex_passes_over_a_gate_that_it_was_not_told_to_trust() {
    let stage = Stage::new();
    let model = ScriptedModel::start(script(&stage));
    let hook = serde_json::json!({"type": "command", "command": stage.gate(), "timeout": 15});
    let hooks = serde_json::json!({"hooks": {"PreToolUse": [{"matcher": ".*", "hooks": [hook]}]}});
    let run = stage.run(Cli::Codex, &model).file(".codex/hooks.json", &hooks.to_string());
    run.run("Do the work.").expect_code(0);
    assert!(stage.asked().is_empty(), "the trust hash is not needed any more");
    assert!(stage.pushed());
}
