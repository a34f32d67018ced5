//! Claude Code's control protocol: questions on its standard output, answers on its standard input.
//!
//! ```text
//!  we   initialize: ask us before every tool, at the prompt, and at the end of a turn
//!  we   the prompt
//!  it   hook_callback, announces    before the first request to the model
//!  it   hook_callback, gate         before a tool        we   the decision
//!  it   hook_callback, rests        the turn is over, and what is left in the background
//!  it   result
//!  we   nothing more: standard input is closed
//! ```
//!
//! No answer, one that cannot be read, and an error are no yes: its mode `dontAsk` denies.

use std::borrow::Cow;

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::{AllowedReply, Dialect};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::adapter::{ControlMessage, ControlProtocol, Gate};
use super::super::gate_setup::hook_timeout;
use super::super::lines::{entries, object, text};

const GATE: &str = "gate";
const ANNOUNCES: &str = "announces";
const IDLE: &str = "rests";

/// The first lines of its input.
pub(super) fn beginning(gate: &Gate, prompt: &str) -> Vec<String> {
    let ask = |id: &str| json!([{"hookCallbackIds": [id], "timeout": hook_timeout(gate)}]);
    let mut before = ask(GATE);
    if let Some(first) = before.pointer_mut("/0").and_then(Value::as_object_mut) {
        first.insert("matcher".to_owned(), json!("*"));
    }
    let hooks = json!({
        "PreToolUse": before,
        "UserPromptSubmit": ask(ANNOUNCES),
        "Stop": ask(IDLE),
    });
    let request = json!({"subtype": "initialize", "hooks": hooks});
    let first = json!({"type": "control_request", "request_id": "bailiwick", "request": request});
    let message = json!({"role": "user", "content": prompt});
    let message_line = json!({
        "type": "user",
        "message": message,
        "parent_tool_use_id": null,
        "session_id": "",
    });
    vec![first.to_string(), message_line.to_string()]
}

/// The fields that identify the kind of a line.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// Parses its questions.
#[derive(Debug, Default)]
pub(super) struct ClaudeControl {
    background: Background,
}

/// What a turn has left running.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Background {
    #[default]
    Nothing,
    /// Shells, which do not ask.
    Shells,
    /// Agents, which ask while they work.
    Agents,
}

impl ControlProtocol for ClaudeControl {
    fn parse(&mut self, line: &str) -> Option<ControlMessage> {
        // The order of keys differs between versions, so every line is parsed. Most are not questions.
        let head: Head = serde_json::from_str(line).ok()?;
        match (head.kind.as_ref(), head.subtype.as_deref()) {
            ("control_request", _) => return object(line).map(|line| self.control_request(&line)),
            ("system", Some("init")) => return Some(ControlMessage::Working),
            ("result", _) => {}
            _ => return None,
        }
        let failed = head.is_error != Some(false);
        match self.background {
            _ if failed => Some(ControlMessage::Finished),
            Background::Nothing => Some(ControlMessage::Finished),
            Background::Shells => Some(ControlMessage::OnlyBackgroundWork),
            // They report to it, and it continues.
            Background::Agents => None,
        }
    }
}

impl ClaudeControl {
    fn control_request(&mut self, line: &Value) -> ControlMessage {
        let id = text(line, "/request_id");
        let callback = text(line, "/request/callback_id");
        let known = text(line, "/request/subtype") == "hook_callback";
        match callback.as_str() {
            GATE if known => {
                let payload = line.pointer("/request/input").map(Value::to_string);
                let answer = move |decision: &Decision| answered(&id, &in_its_words(decision));
                ControlMessage::Decide(payload.unwrap_or_default(), Box::new(answer))
            }
            ANNOUNCES if known => ControlMessage::Announce(answered(&id, &json!({}))),
            IDLE if known => {
                self.background = background_of(line);
                ControlMessage::Reply(answered(&id, &json!({})))
            }
            _ => ControlMessage::Reply(refused(&id)),
        }
    }
}

/// The background work at the end of a turn.
fn background_of(line: &Value) -> Background {
    let running = entries(line, "/request/input/background_tasks")
        .filter(|task| text(task, "/status") == "running");
    running.fold(Background::Nothing, |left, task| match text(task, "/type").as_str() {
        "shell" if left == Background::Nothing => Background::Shells,
        "shell" => left,
        _ => Background::Agents,
    })
}

/// The decision in the form of a hook's output, except that a denial is passed on unchanged.
fn in_its_words(decision: &Decision) -> Value {
    let answer = Dialect::Claude.answer(decision, AllowedReply::Explicit);
    let allowed = (answer.exit == 0).then(|| serde_json::from_str(&answer.stdout).ok()).flatten();
    allowed.unwrap_or_else(|| {
        json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": answer.stderr.trim_end(),
        }})
    })
}

fn answered(id: &str, response: &Value) -> String {
    response_line(json!({"subtype": "success", "request_id": id, "response": response}))
}

/// The refusal of a request that we did not expect.
fn refused(id: &str) -> String {
    let error = "bailiwick answers nothing but the questions of its gate";
    response_line(json!({"subtype": "error", "request_id": id, "error": error}))
}

fn response_line(response: Value) -> String {
    json!({"type": "control_response", "response": response}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_policy::decision::Objection;

    const QUESTION: &str = r#"{"type":"control_request","request_id":"7","request":{"subtype":"hook_callback","callback_id":"gate","input":{"tool_name":"Bash"}}}"#;

    fn stop(tasks: &Value) -> String {
        let input = json!({"background_tasks": tasks});
        let request =
            json!({"subtype": "hook_callback", "callback_id": "rests", "input": input}).to_string();
        format!(r#"{{"type":"control_request","request_id":"8","request":{request}}}"#)
    }

    const DONE: &str = r#"{"type":"result","is_error":false}"#;

    #[test]
    fn decision_is_reported_under_the_id_of_the_question() {
        let deny = Decision::deny(Objection::new("a::rule", "no", "stop"));
        for (decision, word) in [(deny, "deny"), (Decision::allow(), "allow")] {
            let Some(ControlMessage::Decide(payload, answer)) =
                ClaudeControl::default().parse(QUESTION)
            else {
                panic!("the line was not recognised");
            };
            assert_eq!(payload, r#"{"tool_name":"Bash"}"#);
            let line: Value = serde_json::from_str(&answer(&decision)).unwrap();
            assert_eq!(text(&line, "/response/request_id"), "7");
            let decision_path = "/response/response/hookSpecificOutput/permissionDecision";
            assert_eq!(text(&line, decision_path), word);
            let reason = text(&line, &format!("{decision_path}Reason"));
            assert_eq!(reason.contains("a::rule"), word == "deny", "{reason}");
        }
    }

    #[test]
    fn order_of_keys_does_not_matter() {
        for line in
            [DONE, r#"{"duration_api_ms":3,"is_error":false,"result":"ok","type":"result"}"#]
        {
            assert!(
                matches!(ClaudeControl::default().parse(line), Some(ControlMessage::Finished)),
                "{line}"
            );
        }
        let started = r#"{"cwd":"/a","subtype":"init","type":"system"}"#;
        assert!(matches!(ClaudeControl::default().parse(started), Some(ControlMessage::Working)));
        let question: Value = serde_json::from_str(QUESTION).unwrap();
        let turned = format!(
            r#"{{"request":{},"request_id":"7","type":"control_request"}}"#,
            question["request"]
        );
        assert!(matches!(
            ClaudeControl::default().parse(&turned),
            Some(ControlMessage::Decide(..))
        ));
        let quoted = r#"{"type":"assistant","message":"{\"type\":\"result\"}"}"#;
        assert!(
            ClaudeControl::default().parse(quoted).is_none(),
            "a line that only quotes a message"
        );
    }

    #[test]
    fn unexpected_question_is_answered_with_an_error() {
        for line in [
            QUESTION.replace("\"gate\"", "\"other\""),
            QUESTION.replace("hook_callback", "can_use_tool"),
        ] {
            let Some(ControlMessage::Reply(answer)) = ClaudeControl::default().parse(&line) else {
                panic!("{line}");
            };
            assert!(answer.contains(r#""subtype":"error""#), "{answer}");
        }
    }

    #[test]
    fn program_may_end_when_no_sub_agent_runs() {
        let shell = json!({"type": "shell", "status": "running"});
        let agent = json!({"type": "subagent", "status": "running"});
        let completed = json!({"type": "subagent", "status": "completed"});
        for (tasks, failed, expected) in [
            (json!([]), false, "end"),
            (json!([completed]), false, "end"),
            (json!([shell]), false, "linger"),
            (json!([shell, agent]), false, "wait"),
            (json!([agent, shell]), false, "wait"),
            (json!([agent]), true, "end"),
        ] {
            let mut control = ClaudeControl::default();
            assert!(matches!(control.parse(&stop(&tasks)), Some(ControlMessage::Reply(_))));
            let result_line = if failed { DONE.replace("false", "true") } else { DONE.to_owned() };
            let message = match control.parse(&result_line) {
                Some(ControlMessage::Finished) => "end",
                Some(ControlMessage::OnlyBackgroundWork) => "linger",
                None => "wait",
                Some(
                    ControlMessage::Working
                    | ControlMessage::Decide(..)
                    | ControlMessage::Announce(_)
                    | ControlMessage::Reply(_),
                ) => "asks",
            };
            assert_eq!(message, expected, "{tasks}");
        }
    }
}
