//! The behaviour of each CLI when its gate breaks, and that the wrapper turns it into a denial.

use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{BROKEN, Stage, wrapped};

const MISSING: &str = "'/nonexistent/gate' check";
const FAILS: &str = "sh -c 'exit 1'";
const CRASHES: &str = "sh -c 'kill -ABRT $$'";

/// The result of a push.
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

/// The call runs if the gate is broken, and is denied if the broken gate is wrapped.
fn assert_open_unless_wrapped(cli: Cli, gate: &str) {
    let unwrapped = push(cli, gate, |run| run);
    assert!(unwrapped.happened, "{cli:?} itself denies if the gate is {gate}: {unwrapped:?}");
    assert_denied_when_wrapped(cli, gate);
}

fn assert_denied_when_wrapped(cli: Cli, gate: &str) {
    let wrapped_push = push(cli, &wrapped(gate), |run| run);
    assert!(
        !wrapped_push.happened && wrapped_push.told.contains(BROKEN),
        "{cli:?}, {gate}: {wrapped_push:?}"
    );
}

#[test]
fn claude_runs_a_call_whose_gate_is_broken_unless_wrapped() {
    for gate in [MISSING, FAILS, CRASHES] {
        assert_open_unless_wrapped(Cli::Claude, gate);
    }
}

#[test]
fn codex_runs_a_call_whose_gate_is_broken_unless_wrapped() {
    for gate in [MISSING, FAILS, CRASHES] {
        assert_open_unless_wrapped(Cli::Codex, gate);
    }
}

#[test]
fn gemini_runs_a_call_whose_gate_fails_unless_wrapped() {
    assert_open_unless_wrapped(Cli::Gemini, FAILS);
}

#[test]
fn gemini_denies_a_call_whose_gate_is_missing_wrapped_or_not() {
    let unwrapped = push(Cli::Gemini, MISSING, |run| run);
    assert!(!unwrapped.happened, "{unwrapped:?}");
    assert_denied_when_wrapped(Cli::Gemini, MISSING);
}

#[test]
fn gate_that_never_answers_lets_the_call_run_unless_it_is_killed_first() {
    for cli in [Cli::Claude, Cli::Codex] {
        let unwrapped = push(cli, "sleep 30", |run| run.gate_seconds(1));
        assert!(unwrapped.happened, "{cli:?}: {unwrapped:?}");
        let gate = wrapped("timeout -s KILL 1 sleep 30");
        let wrapped_push = push(cli, &gate, |run| run);
        assert!(
            !wrapped_push.happened && wrapped_push.told.contains(BROKEN),
            "{cli:?}: {wrapped_push:?}"
        );
    }
}

#[test]
fn claude_that_may_not_ask_denies_calls_that_no_gate_allows() {
    let no_settings = |run: CliRun| run.settings("{}");
    let broken = push(Cli::Claude, MISSING, no_settings);
    assert!(!broken.happened, "{broken:?}");
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"ok"}}"#;
    let allowed = push(Cli::Claude, &format!("echo '{answer}'"), no_settings);
    assert!(allowed.happened, "{allowed:?}");
}

#[test]
fn opencode_plugin_denies_a_call_whose_gate_is_missing() {
    let denied_push = push(Cli::OpenCode, MISSING, |run| run);
    assert!(
        !denied_push.happened && denied_push.told.contains("/nonexistent/gate"),
        "{denied_push:?}"
    );
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
