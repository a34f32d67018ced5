//! The scripted model alone, over plain connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bailiwick_testkit::scripted_model::{Call, SIDE_ANSWER, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

fn model() -> ScriptedModel {
    ScriptedModel::start(
        Script::new(vec![
            Turn::Calls(vec![Call::shell("first"), Call::shell("beside it")]),
            Turn::Calls(vec![Call::shell("second")]),
            Turn::say("finished"),
        ])
        .when("PART-TWO", vec![Turn::say("the part is done")]),
    )
}

fn connect(model: &ScriptedModel) -> TcpStream {
    TcpStream::connect(model.base_url().trim_start_matches("http://")).unwrap()
}

fn post(model: &ScriptedModel, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    send(model, &format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"))
}

fn send(model: &ScriptedModel, request: &str) -> String {
    let mut stream = connect(model);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn chat(messages: Value) -> Value {
    json!({"model": "m", "stream": true, "tools": [{}], "messages": messages})
}

#[test]
fn turn_is_derived_from_the_conversation() {
    let model = model();
    let first_request = chat(json!([{"role": "user", "content": "Go."}]));
    for _ in 0..2 {
        let answer = post(&model, "/v1/chat/completions", &first_request);
        assert!(answer.contains("first") && answer.contains("beside it"), "{answer}");
        assert!(answer.contains("call_0_0_0") && answer.contains("call_0_0_1"), "{answer}");
    }
    let one_round = chat(json!([
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [{}, {}]},
        {"role": "tool", "tool_call_id": "call_0_0_0", "content": "one"},
        {"role": "tool", "tool_call_id": "call_0_0_1", "content": "two"},
    ]));
    let answer = post(&model, "/v1/chat/completions", &one_round);
    assert!(answer.contains("second") && answer.contains("call_0_1_0"), "{answer}");
    assert_eq!(model.result("call_0_0_1"), "two");
    assert_eq!(model.results().len(), 2);
}

#[test]
fn continuing_script_counts_only_its_own_turns() {
    let turns = vec![Turn::Calls(vec![Call::shell("third")]), Turn::say("over")];
    let model = ScriptedModel::start(Script::continuing("later", turns));
    let mut messages = vec![
        json!({"role": "user", "content": "Go."}),
        json!({"role": "assistant", "tool_calls": [{}]}),
        json!({"role": "tool", "tool_call_id": "call_0_0_0", "content": "before"}),
        json!({"role": "assistant", "content": "finished"}),
        json!({"role": "user", "content": "Go on."}),
    ];
    let answer = post(&model, "/v1/chat/completions", &chat(json!(messages)));
    assert!(answer.contains("third") && answer.contains("call_later_0_0"), "{answer}");
    let tool_result = json!({"role": "tool", "tool_call_id": "call_later_0_0", "content": "now"});
    messages.extend([json!({"role": "assistant", "tool_calls": [{}]}), tool_result]);
    let answer = post(&model, "/v1/chat/completions", &chat(json!(messages)));
    assert!(answer.contains("over"), "{answer}");
}

#[test]
fn last_message_is_repeated_after_the_end() {
    let model = model();
    let messages: Vec<_> = (0..9).map(|_| json!({"role": "assistant", "content": "x"})).collect();
    let answer = post(&model, "/v1/chat/completions", &chat(json!(messages)));
    assert!(answer.contains("finished"), "{answer}");
}

#[test]
fn side_calls_and_sub_agents_have_separate_answers() {
    let model = model();
    let title = json!({"messages": [{"role": "user", "content": "A title?"}]});
    assert!(post(&model, "/v1/chat/completions", &title).contains(SIDE_ANSWER));
    let part = chat(json!([{"role": "user", "content": "Do PART-TWO."}]));
    assert!(post(&model, "/v1/chat/completions", &part).contains("the part is done"));
}

#[test]
fn chunked_body_is_read_completely() {
    let model = model();
    let body = chat(json!([{"role": "user", "content": "Go."}])).to_string();
    let (head, tail) = body.split_at(10);
    let chunks = format!("{:x}\r\n{head}\r\n{:x}\r\n{tail}\r\n0\r\n\r\n", head.len(), tail.len());
    let start = "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = send(&model, &format!("{start}{chunks}"));
    assert!(answer.contains("beside it"), "{answer}");
}

#[test]
fn unknown_path_is_recorded_and_not_found() {
    let model = model();
    let answer = post(&model, "/v1/elsewhere", &json!({"a": 1}));
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].path.as_str(), requests[0].status), ("/v1/elsewhere", 404));
    assert_eq!(requests[0].body, json!({"a": 1}));
}

#[test]
fn dropped_model_stops_listening() {
    let model = model();
    let address = model.base_url().trim_start_matches("http://").to_owned();
    // Sends nothing and stays connected; the drop does not wait for it.
    let mut idle = connect(&model);
    drop(model);
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}
