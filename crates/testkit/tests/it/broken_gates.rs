//! What each CLI does when its gate breaks, and that the wrapper makes a denial of it.

use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{BROKEN, Stage, wrapped};

const MISSING: &str = "'/nonexistent/gate' check";
const FAILS: &str = "sh -c 'exit 1'";
const CRASHES: &str = "sh -c 'kill -ABRT $$'";

/// What became of a push.
#[derive(Debug, PartialEq, Eq)]
struct Push {
    happened: bool,
    told: String,
}

fn push(cli: Cli, gate: &str, change: impl Fn(CliRun) -> CliRun) -> Push {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("finished"),
    ]));
    let run = change(stage.run(cli, &model).gate(gate));
    run.run("Push.").expect_code(0);
    Push { happened: stage.pushed(), told: model.result("call_0_0_0") }
}

/// That the call runs when the gate is broken, and is denied when the broken gate is wrapped.
fn open_unless_wrapped(cli: Cli, gate: &str) {
    let bare = push(cli, gate, |run| run);
    assert!(bare.happened, "{cli:?} denies by itself when the gate is {gate}: {bare:?}");
    denied_when_wrapped(cli, gate);
}

fn denied_when_wrapped(cli: Cli, gate: &str) {
    let held = push(cli, &wrapped(gate), |run| run);
    assert!(!held.happened && held.told.contains(BROKEN), "{cli:?}, {gate}: {held:?}");
}

#[test]
fn claude_runs_a_call_whose_gate_is_broken_unless_wrapped() {
    for gate in [MISSING, FAILS, CRASHES] {
        open_unless_wrapped(Cli::Claude, gate);
    }
}

#[test]
fn codex_runs_a_call_whose_gate_is_broken_unless_wrapped() {
    for gate in [MISSING, FAILS, CRASHES] {
        open_unless_wrapped(Cli::Codex, gate);
    }
}

#[test]
fn gemini_runs_a_call_whose_gate_fails_unless_wrapped() {
    open_unless_wrapped(Cli::Gemini, FAILS);
}

#[test]
fn gemini_denies_a_call_whose_gate_is_missing_wrapped_or_not() {
    let bare = push(Cli::Gemini, MISSING, |run| run);
    assert!(!bare.happened, "{bare:?}");
    denied_when_wrapped(Cli::Gemini, MISSING);
}

#[test]
fn a_gate_that_never_answers_lets_the_call_run_unless_it_is_ended_first() {
    for cli in [Cli::Claude, Cli::Codex] {
        let bare = push(cli, "sleep 30", |run| run.gate_seconds(1));
        assert!(bare.happened, "{cli:?}: {bare:?}");
        let gate = wrapped("timeout -s KILL 1 sleep 30");
        let held = push(cli, &gate, |run| run);
        assert!(!held.happened && held.told.contains(BROKEN), "{cli:?}: {held:?}");
    }
}

#[test]
fn claude_that_may_not_ask_denies_what_no_gate_allows() {
    let nothing = |run: CliRun| run.settings("{}");
    let broken = push(Cli::Claude, MISSING, nothing);
    assert!(!broken.happened, "{broken:?}");
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"ok"}}"#;
    let allowed = push(Cli::Claude, &format!("echo '{answer}'"), nothing);
    assert!(allowed.happened, "{allowed:?}");
}

#[test]
fn the_opencode_plugin_denies_a_call_whose_gate_is_missing() {
    let held = push(Cli::OpenCode, MISSING, |run| run);
    assert!(!held.happened && held.told.contains("/nonexistent/gate"), "{held:?}");
}

#[test]
fn opencode_runs_without_a_plugin_that_does_not_load() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("finished"),
    ]));
    let run = stage.run(Cli::OpenCode, &model);
    let run = run.file(".config/opencode/plugin/gate.js", "export const Gate = async (\n");
    run.run("Push.").expect_code(0);
    assert!(stage.pushed(), "{:#?}", model.results());
}
