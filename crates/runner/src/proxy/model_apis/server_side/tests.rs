//! Tests of server-side tools.

use serde_json::json;

use super::*;

fn names(wire: ModelApi, body: &Value) -> Vec<String> {
    let name = |tool: ServerSide| match tool {
        ServerSide::Search(name) => format!("search {name}"),
        ServerSide::Address { url, .. } => format!("at {url}"),
        ServerSide::Other(name) => name,
    };
    wire.server_side(body).unwrap().into_iter().map(name).collect()
}

#[test]
fn tools_of_the_program_are_not_server_side() {
    let anthropic = json!({"tools": [
        {"name": "Bash", "input_schema": {"properties": {"url": {"type": "string"}}}},
        {"type": "custom", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
    ], "mcp_servers": [], "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "data": "x"}},
        {"type": "tool_use", "input": {"source": {"type": "url", "url": "https://a.example"}}},
    ]}]});
    let responses = json!({"tools": [
        {"type": "function"}, {"type": "custom"}, {"type": "local_shell"},
        {"type": "namespace", "tools": [{"type": "function"}]},
        {"type": "shell", "environment": {"type": "local"}},
    ], "background": false, "input": [
        {"type": "additional_tools", "tools": [{"type": "custom"}]},
        {"type": "message", "content": [{"type": "input_image", "image_url": "data:x"}]},
    ]});
    let chat = json!({"tools": [{"type": "function"}], "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]},
    ]});
    let gemini = json!({"tools": [{"functionDeclarations": [{}]}], "contents": [
        {"parts": [{"functionCall": {"args": {"fileData": {"fileUri": "https://a.example"}}}}]},
    ]});
    for (wire, body) in [
        (ModelApi::Anthropic, anthropic),
        (ModelApi::Responses, responses),
        (ModelApi::Chat, chat),
        (ModelApi::Gemini, gemini),
    ] {
        assert_eq!(names(wire, &body), Vec::<String>::new(), "{wire:?}");
    }
}

#[test]
fn unknown_kinds_of_tools_are_server_side() {
    let kinds = ["web_fetch_20250910", "code_execution_20250825", "computer_20250124", "new_thing"];
    for kind in kinds {
        let body = json!({"tools": [{"type": kind}]});
        assert_eq!(names(ModelApi::Anthropic, &body), [kind]);
    }
    for kind in [
        "file_search",
        "code_interpreter",
        "image_generation",
        "computer_use_preview",
        "shell",
        "mcp",
        "new_thing",
    ] {
        for body in [
            json!({"tools": [{"type": kind}]}),
            json!({"tools": [{"type": "namespace", "tools": [{"type": kind}]}]}),
            json!({"input": [{"type": "additional_tools", "tools": [{"type": kind}]}]}),
        ] {
            assert_eq!(names(ModelApi::Responses, &body), [kind]);
        }
    }
    for kind in ["builtin_function", "retrieval"] {
        assert_eq!(names(ModelApi::Chat, &json!({"tools": [{"type": kind}]})), [kind]);
    }
    for kind in ["urlContext", "url_context", "codeExecution", "fileSearch", "googleMaps"] {
        assert_eq!(names(ModelApi::Gemini, &json!({"tools": [{kind: {}}]})), [kind]);
    }
}

#[test]
fn searches_and_remote_servers_are_distinguished() {
    for (wire, body) in [
        (ModelApi::Anthropic, json!({"tools": [{"type": "web_search_20250305"}]})),
        (ModelApi::Responses, json!({"tools": [{"type": "web_search_preview"}]})),
        (ModelApi::Chat, json!({"web_search_options": {}})),
        (ModelApi::Gemini, json!({"tools": [{"googleSearch": {}}]})),
    ] {
        let found = wire.server_side(&body).unwrap();
        assert!(matches!(found.as_slice(), [ServerSide::Search(_)]), "{body}");
    }
    let url = "https://a.example/x";
    for (wire, body) in [
        (ModelApi::Anthropic, json!({"mcp_servers": [{"type": "url", "url": url}]})),
        (
            ModelApi::Anthropic,
            json!({"messages": [{"content": [{"type": "tool_result", "content": [
                {"type": "image", "source": {"type": "url", "url": url}}]}]}]}),
        ),
        (ModelApi::Responses, json!({"tools": [{"type": "mcp", "server_url": url}]})),
        (
            ModelApi::Responses,
            json!({"input": [{"type": "function_call_output", "output": [
                {"type": "input_image", "image_url": url}]}]}),
        ),
        (
            ModelApi::Chat,
            json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": url}}]}]}),
        ),
        (ModelApi::Gemini, json!({"contents": [{"parts": [{"file_data": {"file_uri": url}}]}]})),
    ] {
        assert_eq!(names(wire, &body), [format!("at {url}")], "{body}");
    }
}

#[test]
fn state_stored_on_the_host_counts_as_server_side() {
    for (wire, name) in [
        (ModelApi::Anthropic, "container"),
        (ModelApi::Responses, "background"),
        (ModelApi::Responses, "prompt"),
        (ModelApi::Chat, "plugins"),
        (ModelApi::Chat, "models"),
        (ModelApi::Gemini, "cachedContent"),
    ] {
        let body = json!({name: true});
        assert_eq!(names(wire, &body), [name]);
    }
}

#[test]
fn ambiguous_request_is_unreadable() {
    for (wire, body) in [
        (ModelApi::Anthropic, json!({"tools": {"type": "web_search_20250305"}})),
        (ModelApi::Anthropic, json!({"tools": [{"type": ["web_search_20250305"]}]})),
        (ModelApi::Anthropic, json!({"mcpServers": []})),
        (ModelApi::Chat, json!({"Tools": []})),
        (ModelApi::Chat, json!({"tools": [{"function": {}}]})),
        (ModelApi::Responses, json!({"tools": [[]]})),
        (ModelApi::Gemini, json!({"TOOLS": []})),
        (ModelApi::Gemini, json!([])),
    ] {
        assert!(wire.server_side(&body).is_err(), "{body}");
    }
}
