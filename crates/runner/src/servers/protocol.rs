//! The messages to and from an MCP server.

use bailiwick_model::DiscoveredTool;
use serde_json::{Value, json};

use super::ServerError;

/// The requested version of the protocol; a server may answer with an older one.
pub(super) const VERSION: &str = "2025-06-18";
/// The maximum size of a server's output.
pub(super) const MAX_BYTES: usize = 8 << 20;
/// The maximum number of pages of its tool list.
pub(super) const MAX_PAGES: usize = 64;
/// The maximum number of tools.
const MAX_TOOLS: usize = 2_000;
/// The longest name of a page.
const MAX_CURSOR_LENGTH: usize = 1024;
/// The maximum number of its own requests.
pub(super) const MAX_REQUESTS: usize = 64;
/// The longest name of one.
const MAX_NAME_LENGTH: usize = 128;

pub(super) fn hello() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": "bailiwick", "version": env!("CARGO_PKG_VERSION") },
        },
    })
}

pub(super) fn ready() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

pub(super) fn list(id: usize, cursor: Option<&str>) -> Value {
    let params = match cursor {
        Some(cursor) => json!({ "cursor": cursor }),
        None => json!({}),
    };
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params })
}

/// A message of the server while a response is awaited.
pub(super) enum ServerMessage {
    /// The answer.
    Result(Value),
    /// Its own request, with our answer.
    Request(Value),
    /// Nothing of interest.
    Notification,
}

/// Reads a message.
pub(super) fn parse(message: &Value, waiting: usize) -> Result<ServerMessage, ServerError> {
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(ServerError::NoJsonRpc);
    }
    let id = message.get("id").filter(|id| !id.is_null());
    if id.is_some_and(|id| id.to_string().len() > MAX_NAME_LENGTH) {
        return Err(ServerError::LongMessageId);
    }
    match (message.get("method").and_then(Value::as_str), id) {
        (Some("ping"), Some(id)) => {
            Ok(ServerMessage::Request(json!({ "jsonrpc": "2.0", "id": id, "result": {} })))
        }
        (Some(_), Some(id)) => {
            let error = json!({ "code": -32601, "message": "not here" });
            Ok(ServerMessage::Request(json!({ "jsonrpc": "2.0", "id": id, "error": error })))
        }
        (Some(_), None) => Ok(ServerMessage::Notification),
        (None, Some(id)) if id.as_u64() == u64::try_from(waiting).ok() => {
            if let Some(error) = message.get("error") {
                let words = error.get("message").and_then(Value::as_str).unwrap_or("no words");
                return Err(ServerError::Refused(shown(words)));
            }
            let result = message.get("result").cloned();
            result.map(ServerMessage::Result).ok_or(ServerError::NoResult)
        }
        (None, _) => Ok(ServerMessage::Notification),
    }
}

/// Returns an error if the server does not have tools.
pub(super) fn require_tools_capability(result: &Value) -> Result<(), ServerError> {
    if result.get("protocolVersion").and_then(Value::as_str).is_none() {
        return Err(ServerError::NoProtocol);
    }
    match result.pointer("/capabilities/tools") {
        Some(Value::Object(_)) => Ok(()),
        Some(_) | None => Err(ServerError::NoTools),
    }
}

/// Adds a page of tools; where the next one begins.
pub(super) fn page(
    result: &Value,
    tools: &mut Vec<DiscoveredTool>,
) -> Result<Option<String>, ServerError> {
    let listed = result.get("tools").and_then(Value::as_array);
    for tool in listed.ok_or(ServerError::NoList)? {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_plain(name) {
            // It would be used in lists of tools, where some characters match others.
            return Err(ServerError::ToolName(shown(name)));
        }
        if tools.len() >= MAX_TOOLS {
            return Err(ServerError::TooManyTools(MAX_TOOLS));
        }
        let hint = tool.pointer("/annotations/readOnlyHint").and_then(Value::as_bool);
        tools.push(DiscoveredTool { name: name.to_owned(), read_only: hint.unwrap_or(false) });
    }
    match result.get("nextCursor").and_then(Value::as_str) {
        Some(cursor) if cursor.len() > MAX_CURSOR_LENGTH => Err(ServerError::LongCursor),
        cursor => Ok(cursor.map(str::to_owned)),
    }
}

fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.chars().all(fits)
}

/// Text of a server, short and on one line.
pub(super) fn shown(text: &str) -> String {
    let line = text.trim().lines().last().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_with_a_wildcard_is_refused() {
        for name in ["*", "a?", "", "a b", "mcp__x__*", "é"] {
            let result = json!({ "tools": [{ "name": name }] });
            assert!(page(&result, &mut Vec::new()).is_err(), "{name}");
        }
        let mut tools = Vec::new();
        let good = json!({
            "tools": [{ "name": "a.b-c_d", "annotations": { "readOnlyHint": true } }, { "name": "e" }],
            "nextCursor": "2",
        });
        assert_eq!(page(&good, &mut tools), Ok(Some("2".to_owned())));
        assert_eq!(tools.iter().map(|tool| tool.read_only).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn request_of_the_server_is_not_taken_as_the_answer() {
        let ping = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
        assert!(matches!(parse(&ping, 0), Ok(ServerMessage::Request(_))));
        let other = json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
        assert!(matches!(parse(&other, 0), Ok(ServerMessage::Notification)));
        let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": {} });
        assert!(matches!(parse(&answer, 0), Ok(ServerMessage::Result(_))));
        assert!(parse(&json!({ "id": 0, "result": {} }), 0).is_err());
    }
}
