//! Rebuilds what is known about tool calls from the events of earlier attempts.

use bailiwick_lifecycle::delegation::consent::matches_call_text;
use bailiwick_lifecycle::supervision::CallTracker;
use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, ReportedBy};
use bailiwick_policy::tool::{Class, Tool};

/// Replays the calls and decisions of earlier attempts, because a program may send the result of an earlier
/// call to the model only now.
pub(super) fn replay_events(known: &mut CallTracker, earlier: &[Event]) {
    let mut open: Vec<(&str, &serde_json::Value)> = Vec::new();
    for event in earlier {
        match (&event.what, event.reported_by) {
            (EventKind::ToolCall { id, tool, input }, ReportedBy::Proxy) => {
                known.on_tool_call(id, tool, input);
                open.push((tool, input));
            }
            (EventKind::Decision { call: Some(call), tool, about, answer, rule, .. }, _) => {
                let input = decided_input(tool, about, *answer);
                let counts = known.on_decision(Some(call), tool, &input);
                if *answer == Answer::Deny && counts {
                    known.on_denial(Some(call), tool, &input, rule.as_deref().unwrap_or_default());
                }
            }
            (EventKind::Decision { call: None, about, answer, rule, .. }, _) => {
                let place = open.iter().position(|(_, input)| is_about(input, about));
                if let Some((tool, input)) = place.map(|place| open.remove(place)) {
                    known.on_decision(None, tool, input);
                    if *answer == Answer::Deny {
                        known.on_denial(None, tool, input, rule.as_deref().unwrap_or_default());
                    }
                }
            }
            (EventKind::ToolResult { id, .. }, ReportedBy::Proxy) => known.add_known_result(id),
            (EventKind::ToolResult { id, ok, output }, ReportedBy::Program) => {
                known.on_reported_result(id, output, !ok)
            }
            (EventKind::Command { command, .. }, ReportedBy::Program) => {
                known.on_reported_command(command)
            }
            (_, _) => {}
        }
    }
}

/// The input of the call that a stored decision was about, as far as it is known. An approval holds for its
/// command only; a denial may be for a call that could not be parsed.
fn decided_input(tool: &str, about: &str, answer: Answer) -> serde_json::Value {
    let shell = Tool::named(tool).is_some_and(|tool| tool.class == Class::Shell);
    match answer {
        Answer::Allow if shell => serde_json::json!({"command": about}),
        Answer::Allow | Answer::Deny => serde_json::Value::Null,
    }
}

/// Whether a stored decision can be about a call with this input.
fn is_about(input: &serde_json::Value, about: &str) -> bool {
    let fields = || input.as_object().into_iter().flatten();
    match about {
        "" => !fields().any(|(name, _)| name == "command"),
        about => {
            fields().any(|(_, field)| field.as_str() == Some(about))
                || matches_call_text(input, about)
        }
    }
}
