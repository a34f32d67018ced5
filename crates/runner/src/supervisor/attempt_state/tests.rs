//! Tests of the state of an attempt.

use bailiwick_model::attempt::Allowance;
use bailiwick_model::event::Answer;

use super::*;

/// A denial that the program did not report before the attempt ended must still come back as a denial.
#[test]
fn denials_of_earlier_attempts_count() {
    let event =
        |reported_by, what| Event { number: 0, at: 0, reported_by, agent: None, what, raw: None };
    let input = serde_json::json!({"command": "git push"});
    let tool_call = EventKind::ToolCall { id: "a".to_owned(), tool: "Bash".to_owned(), input };
    let decided = |answer| EventKind::Decision {
        call: Some("a".to_owned()),
        tool: "Bash".to_owned(),
        about: "git push".to_owned(),
        answer,
        rule: Some("policy::x".to_owned()),
        reason: None,
    };
    for (answer, output, consistent) in [
        (Answer::Deny, "pushed", false),
        (Answer::Deny, "policy::x: no", true),
        (Answer::Allow, "pushed", true),
    ] {
        let behaviour = CliBehaviour {
            hooks_have_call_ids: true,
            tools_without_hook: &[],
            own_refusal_prefixes: &[],
            denial_marker: "",
            truncates_old_results: true,
            unfinished: bailiwick_lifecycle::supervision::IncompleteCalls::Runs,
            reports_commands: false,
            code_mode: None,
        };
        let mut known = CallTracker::new(behaviour);
        let earlier =
            [event(ReportedBy::Proxy, tool_call.clone()), event(ReportedBy::Gate, decided(answer))];
        replay_events(&mut known, &earlier);
        assert_eq!(known.on_result("a", None, output, None).is_ok(), consistent, "{output}");
    }
}

#[test]
fn questions_without_a_call_are_reported_only_where_calls_are_tracked() {
    let (writer, _receiver) = std::sync::mpsc::sync_channel(64);
    for (proxy_sees_calls, forged_hook_requests) in [(true, 1), (false, 0)] {
        let config = AttemptStateConfig {
            behaviour: crate::agents::adapter::Adapter::behaviour(&crate::agents::ClaudeCode),
            budget: Budget(Allowance::default()),
            used: Used::default(),
            time: 0,
            prices: Prices::new(bailiwick_model::settings::Settings::default().prices),
            earlier: Vec::new(),
            session: None,
            has_gate: true,
            api_marks_failures: true,
            proxy_sees_calls,
        };
        let attempt_state = AttemptState::new(config, writer.clone());
        attempt_state.on_decision(Some("a"), "Bash", &serde_json::json!({"command": "ls"}), None);
        assert_eq!(attempt_state.unaccounted().1, forged_hook_requests);
    }
}

/// A process in the sandbox asks about a harmless command under the id of another call.
#[test]
fn answer_of_an_earlier_attempt_is_valid_for_its_own_command_only() {
    let event =
        |reported_by, what| Event { number: 0, at: 0, reported_by, agent: None, what, raw: None };
    let tool_call = |command: &str| EventKind::ToolCall {
        id: "a".to_owned(),
        tool: "Bash".to_owned(),
        input: serde_json::json!({"command": command}),
    };
    let allowed = |about: &str| EventKind::Decision {
        call: Some("a".to_owned()),
        tool: "Bash".to_owned(),
        about: about.to_owned(),
        answer: Answer::Allow,
        rule: None,
        reason: None,
    };
    let behaviour = CliBehaviour {
        hooks_have_call_ids: true,
        tools_without_hook: &[],
        own_refusal_prefixes: &[],
        denial_marker: "",
        truncates_old_results: true,
        unfinished: bailiwick_lifecycle::supervision::IncompleteCalls::Runs,
        reports_commands: false,
        code_mode: None,
    };
    for (about, repeated, consistent) in [
        ("git push", None, true),
        ("echo hi", None, false),
        ("git push", Some("git push"), true),
        ("git push", Some("git push --force"), false),
    ] {
        let mut known = CallTracker::new(behaviour);
        let earlier = [
            event(ReportedBy::Proxy, tool_call("git push")),
            event(ReportedBy::Gate, allowed(about)),
        ];
        replay_events(&mut known, &earlier);
        known.clear_unresolved();
        if let Some(command) = repeated {
            known.on_tool_call("a", "Bash", &serde_json::json!({"command": command}));
        }
        let result = known.on_result("a", None, "pushed", None);
        assert_eq!(result.is_ok(), consistent, "{about}, {repeated:?}");
    }
}
