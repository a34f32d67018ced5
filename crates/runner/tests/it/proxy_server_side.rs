//! What a request may ask the model's host to do itself: search, connect, run code.

use bailiwick_runner::proxy::ModelApi;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::proxy_lab::{Lab, Notification, Recorder, beginning, send};

const WIRES: [ModelApi; 4] =
    [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat, ModelApi::Gemini];

fn with_tool(wire: ModelApi, tool: &Value) -> (&'static str, Value) {
    let (path, mut body) = beginning(wire);
    body.get_mut("tools").unwrap().as_array_mut().unwrap().push(tool.clone());
    (path, body)
}

fn search(wire: ModelApi) -> Value {
    match wire {
        ModelApi::Anthropic => json!({"type": "web_search_20250305", "name": "web_search"}),
        ModelApi::Responses => json!({"type": "web_search"}),
        ModelApi::Chat => json!({"type": "web_search_preview"}),
        ModelApi::Gemini => json!({"googleSearch": {}}),
    }
}

#[test]
fn host_of_the_model_searches_only_for_an_agent_that_may() {
    for wire in WIRES {
        for searches in [false, true] {
            let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
            let recorder = Recorder::allowing();
            let lab = Lab::with_server_side(wire, &model.base_url(), &recorder, &[], searches);
            let (path, body) = with_tool(wire, &search(wire));
            let answer = lab.post(path, &body);
            assert_eq!(answer.status == 200, searches, "{wire:?}");
            assert_eq!(model.requests().len(), usize::from(searches), "{wire:?}");
            if !searches {
                let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains("WebSearch"), "{message}");
                let notifications = recorder.notifications();
                assert!(
                    matches!(notifications.as_slice(), [Notification::Rejected(_)]),
                    "{notifications:?}"
                );
            }
        }
    }
}

#[test]
fn remote_server_is_declared_only_for_a_host_of_the_task() {
    let hosts = ["mcp.example.com:443".to_owned()];
    for (url, allowed) in [
        ("https://mcp.example.com/sse", true),
        ("https://mcp.example.com:8443/sse", false),
        ("http://mcp.example.com/sse", false),
        ("https://mcp.example.com@evil.example/", false),
        ("https://evil.example/mcp.example.com", false),
        ("file:///etc/passwd", false),
        ("", false),
    ] {
        for wire in [ModelApi::Anthropic, ModelApi::Responses] {
            let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
            let recorder = Recorder::allowing();
            let lab = Lab::with_server_side(wire, &model.base_url(), &recorder, &hosts, true);
            let (path, mut body) = beginning(wire);
            if wire == ModelApi::Anthropic {
                body["mcp_servers"] = json!([{"type": "url", "name": "x", "url": url}]);
            } else {
                body["tools"] = json!([{"type": "mcp", "server_label": "x", "server_url": url}]);
            }
            assert_eq!(lab.post(path, &body).status == 200, allowed, "{wire:?} {url}");
            assert_eq!(model.requests().len(), usize::from(allowed), "{wire:?} {url}");
        }
    }
}

#[test]
fn code_that_runs_on_the_models_host_is_always_refused() {
    for (wire, tool) in [
        (ModelApi::Anthropic, json!({"type": "code_execution_20250825", "name": "code_execution"})),
        (ModelApi::Anthropic, json!({"type": "web_fetch_20250910", "name": "web_fetch"})),
        (ModelApi::Responses, json!({"type": "code_interpreter", "container": {"type": "auto"}})),
        (ModelApi::Responses, json!({"type": "something_new"})),
        (ModelApi::Chat, json!({"type": "builtin_function"})),
        (ModelApi::Gemini, json!({"urlContext": {}})),
    ] {
        let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
        let recorder = Recorder::allowing();
        let lab = Lab::with_server_side(wire, &model.base_url(), &recorder, &[], true);
        let (path, body) = with_tool(wire, &tool);
        assert_eq!(lab.post(path, &body).status, 400, "{tool}");
        assert!(model.requests().is_empty(), "{tool}");
    }
}

#[test]
fn body_that_parsers_read_differently_is_refused() {
    let model = ScriptedModel::start(Script::new(vec![Turn::say("hello")]));
    let recorder = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&model.base_url()), &recorder);
    let body = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Go."}]}"#;
    let duplicated =
        body.replacen('{', r#"{"tools":[{"type":"web_fetch_20250910"}],"tools":[],"#, 1);
    let json = "application/json";
    for (path, kind, body, status) in [
        ("/v1/messages", "application/json; charset=utf-8", body, 200),
        ("/v1/messages", json, duplicated.as_str(), 400),
        ("/v1/messages", "application/json; charset=utf-16", body, 400),
        ("/v1/messages", "multipart/form-data; boundary=x", body, 400),
        ("/v1/messages/batches", json, body, 404),
        ("/v1/files", json, body, 404),
        ("/v1/complete", json, body, 404),
        ("/v1/responses", json, body, 404),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer = send(lab.proxy.address(), &format!("{head}{body}"));
        assert_eq!(answer.status, status, "{path} {kind}");
    }
    assert_eq!(model.requests().len(), 1);
}
