//! Codex's hooks as tools of an MCP server, which is ours: it asks over the existing connection, without a process
//! per question. The agent could kill such a process.
//!
//! ```text
//!  it   initialize                  before anything else; it does not start without us
//!  it   tools/call, announce        the session begins
//!  it   tools/call, ask             before a tool        we   the decision, as a hook would print it
//! ```
//!
//! The server lists no tools, because the model must not use those of the gate.

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::stdout_answer;
use serde_json::{Map, Value, json};

use super::super::adapter::{ControlMessage, ControlProtocol};
use super::super::lines::text;

/// The name of the server in Codex.
pub(super) const SERVER: &str = "bailiwick_gate";
/// The tool that decides about a call.
const ASK: &str = "ask";
/// The tool that announces the gate.
const ANNOUNCE: &str = "announce";

/// A question may wait for a person, and the run has its own time limits: if this one were reached, the CLI would
/// continue as if the call had been approved.
pub(super) const SECONDS: u64 = 7 * 24 * 60 * 60;

/// The fields of every call. A missing field would make no question, but an approval.
const FIELDS: [&str; 6] =
    ["cwd", "hook_event_name", "session_id", "tool_input", "tool_name", "tool_use_id"];

/// The hook that asks before a call.
pub(super) fn gate_hook() -> Value {
    let input = FIELDS.map(|field| (field.to_owned(), json!(format!("${{{field}}}"))));
    hook(ASK, Map::from_iter(input))
}

/// The hook that announces the gate.
pub(super) fn announcing() -> Value {
    hook(ANNOUNCE, Map::new())
}

fn hook(tool: &str, input: Map<String, Value>) -> Value {
    json!({"input": input, "server": SERVER, "timeout": SECONDS, "tool": tool, "type": "mcp_tool"})
}

/// Parses its questions.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Questions;

impl ControlProtocol for Questions {
    fn parse(&mut self, message: &str) -> Option<ControlMessage> {
        let message: Value = serde_json::from_str(message).ok()?;
        // A notification needs no answer.
        let id = message.get("id").filter(|id| !id.is_null())?.clone();
        Some(match text(&message, "/method").as_str() {
            "initialize" => ControlMessage::Reply(answered(&id, &introduction(&message))),
            "ping" => ControlMessage::Reply(answered(&id, &json!({}))),
            "tools/list" => ControlMessage::Reply(answered(&id, &json!({"tools": []}))),
            "tools/call" => called(id, &message),
            _ => ControlMessage::Reply(refused(&id)),
        })
    }
}

fn introduction(message: &Value) -> Value {
    json!({
        // The newest version that it supports: our answers are the same in all of them.
        "protocolVersion": text(message, "/params/protocolVersion"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": SERVER, "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Everything but the announcement is a question: what cannot be parsed is denied by the decider.
fn called(id: Value, message: &Value) -> ControlMessage {
    if text(message, "/params/name") == ANNOUNCE {
        return ControlMessage::Announce(answered(&id, &text_content("")));
    }
    let payload =
        message.pointer("/params/arguments").map(|arguments| in_its_place(arguments, message));
    let payload = payload.map(|payload| payload.to_string()).unwrap_or_default();
    let answer = move |decision: &Decision| answered(&id, &text_content(&stdout_answer(decision)));
    ControlMessage::Decide(payload, Box::new(answer))
}

/// The call with the agent that makes it: a thread other than the session's is a sub-agent.
fn in_its_place(arguments: &Value, message: &Value) -> Value {
    let mut payload = arguments.clone();
    let thread = text(message, "/params/_meta/threadId");
    if let Some(payload) = payload.as_object_mut()
        && !thread.is_empty()
        && text(arguments, "/session_id") != thread
    {
        payload.insert("agent_id".to_owned(), json!(thread));
    }
    payload
}

fn text_content(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answered(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn refused(id: &Value) -> String {
    let error = json!({"code": -32601, "message": "there is nothing here but the gate"});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_policy::decision::Objection;

    fn parse(message: &Value) -> Option<ControlMessage> {
        Questions.parse(&message.to_string())
    }

    fn call(name: &str, arguments: &Value) -> Value {
        let meta = json!({"threadId": "thread"});
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    }

    #[test]
    fn call_is_a_question_and_a_denial_is_reported_like_a_hooks() {
        let arguments = json!({"session_id": "thread", "tool_name": "Bash"});
        let Some(ControlMessage::Decide(payload, render)) = parse(&call("ask", &arguments)) else {
            panic!("no question")
        };
        assert_eq!(serde_json::from_str::<Value>(&payload).unwrap(), arguments);
        let denied = Decision::deny(Objection::new("rule", "because", "do this"));
        let reply: Value = serde_json::from_str(&render(&denied)).unwrap();
        assert_eq!(reply["id"], 7);
        let printed = reply["result"]["content"][0]["text"].as_str().unwrap();
        let printed: Value = serde_json::from_str(printed).unwrap();
        assert_eq!(printed["hookSpecificOutput"]["permissionDecision"], "deny");
        let reason = printed["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
        assert!(reason.contains("because"), "{reason}");
    }

    #[test]
    fn approval_is_an_empty_answer() {
        let Some(ControlMessage::Decide(_, render)) = parse(&call("ask", &json!({}))) else {
            panic!("no question")
        };
        let reply: Value = serde_json::from_str(&render(&Decision::allow())).unwrap();
        assert_eq!(reply["result"]["content"][0]["text"], "");
    }

    #[test]
    fn thread_with_its_own_id_is_a_sub_agent() {
        let arguments = json!({"session_id": "session"});
        let Some(ControlMessage::Decide(payload, _)) = parse(&call("ask", &arguments)) else {
            panic!("no question")
        };
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(payload["agent_id"], "thread");
    }

    #[test]
    fn unknown_tool_is_a_question_too() {
        assert!(matches!(parse(&call("other", &json!({}))), Some(ControlMessage::Decide(_, _))));
    }

    #[test]
    fn no_tools_are_listed_and_other_requests_are_refused() {
        let ask = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method});
        let Some(ControlMessage::Reply(listed)) = parse(&ask("tools/list")) else {
            panic!("no list")
        };
        assert!(listed.contains(r#""tools":[]"#), "{listed}");
        let Some(ControlMessage::Reply(refused)) = parse(&ask("resources/list")) else {
            panic!("no answer")
        };
        assert!(refused.contains("-32601"), "{refused}");
        assert!(parse(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).is_none());
    }
}
