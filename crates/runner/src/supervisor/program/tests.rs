//! Tests of running a CLI to its end.

use super::super::writer::WriterMessage;
use super::*;
use crate::agents::adapter::{Adapter as _, ParsedEvent};
use bailiwick_lifecycle::supervision::{Budget, CliBehaviour, Prices};
use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_model::settings::Settings;

fn attempt_state(
    behaviour: CliBehaviour,
) -> (AttemptState, std::sync::mpsc::Receiver<WriterMessage>) {
    let (writer_sender, events) = std::sync::mpsc::sync_channel(64);
    let config = AttemptStateConfig {
        behaviour,
        budget: Budget(Allowance::default()),
        used: Used::default(),
        time: 0,
        prices: Prices::new(Settings::default().prices),
        earlier: Vec::new(),
        session: None,
        has_gate: true,
        api_marks_failures: true,
        proxy_sees_calls: true,
    };
    (AttemptState::new(config, writer_sender), events)
}

/// A process in the sandbox has already reported the denial to the model.
#[test]
fn denied_call_that_the_program_reports_as_run_ends_the_attempt() {
    let input = serde_json::json!({"command": "git push"});
    let result = |ok: bool, output: &str| EventKind::ToolResult {
        id: "a".to_owned(),
        ok,
        output: output.to_owned(),
    };
    let command = || EventKind::Command { command: "git push".to_owned(), exit: Some(0) };
    let (claude, codex) = (crate::agents::ClaudeCode.behaviour(), crate::agents::Codex.behaviour());
    for (behaviour, denied, output_text, ends) in [
        (claude, true, result(true, "pushed"), true),
        (claude, true, result(false, "policy::git: no"), false),
        (claude, false, result(true, "pushed"), false),
        (codex, true, command(), true),
        (codex, false, command(), false),
    ] {
        let (attempt_state, _events) = attempt_state(behaviour);
        attempt_state.on_tool_call(None, "a", "Bash", &input);
        attempt_state.on_decision(Some("a"), "Bash", &input, denied.then_some("policy::git"));
        let denial = "blocked by PreToolUse hook: policy::git";
        assert!(attempt_state.on_result("a", None, denial, true).is_ok());
        attempt_state.on_output_line(vec![ParsedEvent::of(output_text.clone())], "");
        let ending = attempt_state.ending().map(|(ending, _)| ending);
        assert_eq!(ending, ends.then_some(ExitReason::EnforcementLost), "{output_text:?}");
    }
}

/// A person stops an attempt before a model request contains the result of a call.
#[test]
fn call_without_a_decision_counts_in_a_stopped_attempt_too() {
    for (decided, expected) in [(true, ExitReason::Stopped), (false, ExitReason::EnforcementLost)] {
        let (attempt_state, _events) = attempt_state(crate::agents::ClaudeCode.behaviour());
        let input = serde_json::json!({"command": "date"});
        attempt_state.on_tool_call(None, "a", "Bash", &input);
        if decided {
            attempt_state.on_decision(Some("a"), "Bash", &input, None);
        }
        let what =
            EventKind::ToolResult { id: "a".to_owned(), ok: true, output: "Sunday".to_owned() };
        attempt_state.on_output_line(vec![ParsedEvent::of(what)], "");
        attempt_state.end(ExitReason::Stopped, "by a person");
        let verdict = Verdict { completed: false, words: String::new() };
        assert_eq!(final_reason(&attempt_state, None, verdict, true).ending, expected);
    }
}
