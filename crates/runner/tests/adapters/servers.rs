//! An MCP server of the task is offered to the model of each real CLI, runs, and its tools are gated.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::json;

use crate::stage::{REASON, Stage};

/// A server in a few lines of shell, with one tool that repeats its input.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"gov","version":"1"}}' ;;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"say","description":"Says it","inputSchema":{"type":"object","properties":{"msg":{"type":"string"}}}}]}' ;;
  *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"the server has spoken"}]}' ;;
  *) result='{}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn is_gated(cli: Cli) {
    let stage = Stage::new();
    let tool = match cli {
        Cli::Claude => "mcp__gov__say",
        Cli::Codex => "mcp__gov.say",
        Cli::Gemini => "mcp_gov_say",
        Cli::OpenCode => "gov_say",
    };
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::raw(tool, json!({"msg": "hello"}))]),
        Turn::Calls(vec![Call::raw(tool, json!({"msg": "git push"}))]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(cli, &model.base_url());
    let server = json!({"command": "/bin/sh", "args": ["-c", SERVER]});
    assignment.mcp_servers.insert("gov".to_owned(), server);
    let outcome = stage.launch(cli, &assignment);
    let first = model.result("call_0_0_0");
    assert!(first.contains("the server has spoken"), "{cli:?}: {first}\n{}", outcome.err);
    let second = model.result("call_0_1_0");
    assert!(second.contains(REASON), "{cli:?}: {second}");
}

#[test]
fn claude_code_server_is_gated() {
    is_gated(Cli::Claude);
}

#[test]
fn codex_server_is_gated() {
    is_gated(Cli::Codex);
}

#[test]
fn gemini_server_is_gated() {
    is_gated(Cli::Gemini);
}

#[test]
fn opencode_server_is_gated() {
    is_gated(Cli::OpenCode);
}
