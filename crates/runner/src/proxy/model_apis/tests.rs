//! Every wire, with streams that are cut at any byte.

use bailiwick_model::event::Usage;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Route, SyntheticAnswer, Target};
use crate::proxy::bodies::Shape;
use crate::proxy::parsed_answer::{ParsedAnswer, Unreadable};
use crate::proxy::sse::{Events, ReadyEvents};
use crate::proxy::{ModelApi, ToolCall, ToolResult};

const WIRES: [ModelApi; 4] =
    [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat, ModelApi::Gemini];

/// Everything that was read from an answer.
#[derive(Debug, PartialEq)]
struct Read {
    calls: Vec<ToolCall>,
    text: String,
    usage: Usage,
    ended: bool,
}

/// Reads a stream that arrives in these parts.
fn read(wire: ModelApi, parts: &[&[u8]]) -> Result<Read, Unreadable> {
    let (mut events, mut reader, mut answer) =
        (Events::default(), wire.reader(), ParsedAnswer::default());
    let mut take = |ready: ReadyEvents, answer: &mut ParsedAnswer| {
        for data in ready.data {
            let event = match data.as_slice() {
                b"[DONE]" => json!("[DONE]"),
                data => serde_json::from_slice(data).unwrap(),
            };
            reader.event(&event, answer)?;
        }
        Ok(())
    };
    for part in parts {
        take(events.push(part).unwrap(), &mut answer)?;
    }
    take(events.end(), &mut answer)?;
    reader.end(&mut answer)?;
    Ok(known(answer))
}

fn known(answer: ParsedAnswer) -> Read {
    Read { calls: answer.calls, text: answer.text, usage: answer.usage, ended: answer.ended }
}

fn whole(wire: ModelApi, answer: &Value) -> Read {
    let (mut reader, mut parsed) = (wire.reader(), ParsedAnswer::default());
    reader.whole(answer, &mut parsed).unwrap();
    reader.end(&mut parsed).unwrap();
    known(parsed)
}

fn call(id: &str, tool: &str, input: Value) -> ToolCall {
    ToolCall { id: id.into(), tool: tool.into(), input }
}

fn usage(model: &str, numbers: [u64; 4]) -> Usage {
    let [input, output, cache_read, cache_write] = numbers;
    Usage { model: model.into(), input, output, cache_read, cache_write, estimated: false }
}

/// As its host sends it, with two calls and some text.
fn sample(wire: ModelApi) -> (&'static str, Read) {
    let first = call("a1", "Bash", json!({"command": "echo \"}\" é"}));
    let (second, usage) = match wire {
        ModelApi::Anthropic => (call("b2", "Read", json!({})), usage("claude-x", [7, 42, 30, 20])),
        ModelApi::Responses => {
            (call("b2", "functions.patch", json!("*** Begin\n")), usage("gpt-x", [70, 42, 30, 0]))
        }
        ModelApi::Chat => (call("b2", "Read", json!({})), usage("chat-x", [70, 42, 30, 0])),
        ModelApi::Gemini => (call("", "Read", json!({"p": 1})), usage("gemini-x", [70, 42, 30, 0])),
    };
    let stream = match wire {
        ModelApi::Anthropic => ANTHROPIC,
        ModelApi::Responses => RESPONSES,
        ModelApi::Chat => CHAT,
        ModelApi::Gemini => GEMINI,
    };
    (stream, Read { calls: vec![first, second], text: "Let me é see.".into(), usage, ended: true })
}

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","model":"claude-x","content":[],"usage":{"input_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: ping
data: {"type": "ping"}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me é"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" see."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a1","name":"Bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"echo \\\"}"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\\\" é\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"query\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"b2","name":"Read","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}}

event: message_stop
data: {"type":"message_stop"}

"#;

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"r","model":"gpt-x"}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","content":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","output_index":0,"delta":"Let me"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"Let me é see."}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f","call_id":"a1","name":"Bash","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"command\""}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"command\":\"echo \\\"}\\\" é\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"f","call_id":"a1","name":"Bash","arguments":"{\"command\":\"echo \\\"}\\\" é\"}"}}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":2,"item":{"type":"web_search_call","id":"ws"}}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":3,"item":{"type":"custom_tool_call","id":"c","call_id":"b2","namespace":"functions","name":"patch","input":"*** Begin\n"}}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","model":"gpt-x","output":[{"type":"function_call","id":"f","call_id":"a1","name":"Bash","arguments":"{\"command\":\"echo \\\"}\\\" é\"}"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":30},"output_tokens":42}}}

"#;

const CHAT: &str = r#": a comment

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"role":"assistant","content":"Let me é"},"finish_reason":null}],"usage":null}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"content":" see."},"finish_reason":null}]}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"Bash","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"echo \\\"}"}}]},"finish_reason":null}]}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\\" é\"}"}}]},"finish_reason":null}]}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b2","type":"function","function":{"name":"Read","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c","model":"chat-x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","model":"chat-x","choices":[],"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens":42}}

data: [DONE]

"#;

const GEMINI: &str = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Let me é"}]}}],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":2},"modelVersion":"gemini-x"}

data: {"candidates":[{"content":{"role":"model","parts":[{"text":" see."},{"functionCall":{"id":"a1","name":"Bash","args":{"command":"echo \"}\" é"}},"thoughtSignature":"x"}]}}],"modelVersion":"gemini-x"}

data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"Read","args":{"p":1}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":30,"candidatesTokenCount":40,"thoughtsTokenCount":2},"modelVersion":"gemini-x"}

"#;

#[test]
fn stream_reads_the_same_wherever_it_is_cut() {
    for wire in WIRES {
        let (stream, expected) = sample(wire);
        assert_eq!(read(wire, &[stream.as_bytes()]).unwrap(), expected, "{wire:?}");
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            assert_eq!(read(wire, &[head, tail]).unwrap(), expected, "{wire:?} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(wire, &bytes).unwrap(), expected, "{wire:?} byte by byte");
    }
}

#[test]
fn interrupted_stream_is_not_complete_and_has_the_first_calls_only() {
    for wire in WIRES {
        let (stream, expected) = sample(wire);
        let separators = stream.match_indices("\n\n");
        let ends: Vec<usize> = separators.map(|(place, _)| place + 2).collect();
        for &end in ends.iter().take(ends.len() - 3) {
            let broken = read(wire, &[&stream.as_bytes()[..end]]).unwrap();
            if wire != ModelApi::Gemini {
                assert!(!broken.ended, "{wire:?} at {end}");
            }
            for (broken, complete) in broken.calls.iter().zip(&expected.calls) {
                assert_eq!((&broken.id, &broken.tool), (&complete.id, &complete.tool));
            }
        }
    }
}

#[test]
fn answer_that_is_not_a_stream_reads_the_same() {
    let (_, expected) = sample(ModelApi::Anthropic);
    let answer = json!({
        "model": "claude-x", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me é see."},
            {"type": "tool_use", "id": "a1", "name": "Bash", "input": {"command": "echo \"}\" é"}},
            {"type": "tool_use", "id": "b2", "name": "Read", "input": {}},
        ],
        "usage": {"input_tokens": 7, "output_tokens": 42, "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 20},
    });
    assert_eq!(whole(ModelApi::Anthropic, &answer), expected);
    let (_, expected) = sample(ModelApi::Responses);
    let answer = json!({
        "model": "gpt-x", "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Let me é see."}]},
            {"type": "function_call", "call_id": "a1", "name": "Bash",
                "arguments": "{\"command\":\"echo \\\"}\\\" é\"}"},
            {"type": "custom_tool_call", "call_id": "b2", "namespace": "functions",
                "name": "patch", "input": "*** Begin\n"},
        ],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 30},
            "output_tokens": 42},
    });
    assert_eq!(whole(ModelApi::Responses, &answer), expected);
    let (_, expected) = sample(ModelApi::Chat);
    let answer = json!({
        "model": "chat-x", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "content": "Let me é see.", "tool_calls": [
                {"id": "a1", "function": {"name": "Bash",
                    "arguments": "{\"command\":\"echo \\\"}\\\" é\"}"}},
                {"id": "b2", "function": {"name": "Read", "arguments": ""}},
            ],
        }}],
        "usage": {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens": 42},
    });
    assert_eq!(whole(ModelApi::Chat, &answer), expected);
    let (stream, expected) = sample(ModelApi::Gemini);
    let events = stream.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let list: Vec<Value> = events.map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(whole(ModelApi::Gemini, &json!(list)), expected);
}

#[test]
fn synthetic_answer_is_read_back() {
    let requested = call("canary", "shell", json!({"command": "true"}));
    for wire in WIRES {
        for (synthetic, calls, text) in [
            (SyntheticAnswer::Call(&requested), vec![requested.clone()], ""),
            (SyntheticAnswer::Say("done"), vec![], "done"),
        ] {
            let usage = usage("m", [1, 1, 0, 0]);
            let expected = Read { calls, text: text.into(), usage, ended: true };
            let stream = wire.play(synthetic, "m", true);
            assert_eq!(read(wire, &[stream.as_bytes()]).unwrap(), expected, "{wire:?}");
            let answer = serde_json::from_str(&wire.play(synthetic, "m", false)).unwrap();
            assert_eq!(whole(wire, &answer), expected, "{wire:?}");
        }
    }
}

#[test]
fn call_is_complete_as_soon_as_a_program_could_use_it() {
    let (stream, expected) = sample(ModelApi::Chat);
    let (before, _) = stream.split_once("\"b2\"").unwrap();
    let end = before.rfind("\n\n").unwrap() + 2;
    let (mut reader, mut answer) = (ModelApi::Chat.reader(), ParsedAnswer::default());
    for data in Events::default().push(&stream.as_bytes()[..end]).unwrap().data {
        reader.event(&serde_json::from_slice(&data).unwrap(), &mut answer).unwrap();
    }
    assert_eq!(answer.unreported_calls(), &expected.calls[..1]);
    let late_change = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": "{\"command\":\"other\"}"}},
    ]}}]});
    assert!(reader.event(&late_change, &mut answer).is_err(), "it changes a reported call");
}

#[test]
fn call_after_the_end_is_refused() {
    for wire in [ModelApi::Anthropic, ModelApi::Responses, ModelApi::Chat] {
        let (stream, _) = sample(wire);
        let late = wire.play(SyntheticAnswer::Call(&call("late", "x", json!({}))), "m", true);
        let combined = format!("{stream}{late}");
        assert!(read(wire, &[combined.as_bytes()]).is_err(), "{wire:?}");
    }
}

#[test]
fn endless_input_is_refused() {
    let part = "x".repeat(1 << 20);
    let chat = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "b", "arguments": part}},
    ]}}]});
    let anthropic = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": part}});
    let begin = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "name": "b"}});
    for (wire, event) in [(ModelApi::Chat, chat), (ModelApi::Anthropic, anthropic)] {
        let (mut reader, mut answer) = (wire.reader(), ParsedAnswer::default());
        if wire == ModelApi::Anthropic {
            reader.event(&begin, &mut answer).unwrap();
        }
        assert!((0..17).any(|_| reader.event(&event, &mut answer).is_err()), "{wire:?}");
    }
}

fn result(id: &str, tool: &str, output: &str, failed: bool) -> ToolResult {
    ToolResult { id: id.into(), tool: Some(tool.into()), output: output.into(), failed }
}

#[test]
fn tool_results_in_requests_are_read() {
    let anthropic = json!({"model": "m", "stream": true, "tools": [{}], "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "Bash", "input": {}},
            {"type": "tool_use", "id": "b", "name": "Read", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                "content": [{"type": "text", "text": "two"}]}]},
    ]});
    let responses = json!({"model": "m", "stream": true, "tools": [{}], "input": [
        {"type": "message", "role": "user", "content": "Go."},
        {"type": "function_call", "call_id": "a", "name": "Bash", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "Read", "input": ""},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "b",
            "output": {"success": false, "content": [{"type": "input_text", "text": "two"}]}},
    ]});
    let chat = json!({"model": "m", "stream": true, "tools": [{}], "messages": [
        {"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "Bash"}}, {"id": "b", "function": {"name": "Read"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}]},
    ]});
    let gemini = json!({"tools": [{"functionDeclarations": [{}]}], "contents": [
        {"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "Bash", "response": {"output": "one"}}},
            {"functionResponse": {"id": "b", "name": "Read", "response": {"error": "two"}}}]},
    ]});
    for (wire, body) in WIRES.into_iter().zip([anthropic, responses, chat, gemini]) {
        let question = wire.read(&body).unwrap();
        // Results in this wire have no mark of failure.
        let failed = wire != ModelApi::Chat;
        let expected = [result("a", "Bash", "one", false), result("b", "Read", "two", failed)];
        assert_eq!(question.results, expected, "{wire:?}");
        assert!(question.offers_tools, "{wire:?}");
        assert!(question.streams || wire == ModelApi::Gemini, "{wire:?}");
        assert!(wire.read(&json!({"model": "m"})).is_err(), "{wire:?}");
        assert!(wire.read(&json!([])).is_err(), "{wire:?}");
        for list in ["messages", "input", "contents"] {
            let strange = json!({"model": "m", list: [7]});
            assert!(wire.read(&strange).is_err(), "{wire:?}");
        }
    }
    let one = json!({"contents": [{"parts": {"functionResponse": {"id": "a"}}}]});
    assert!(ModelApi::Gemini.read(&one).is_err(), "the result cannot be read");
}

#[test]
fn only_the_paths_of_a_wire_are_routed() {
    let target = |path: &str| Route::Model(Target { path: path.into(), model: None, shape: None });
    let side_path = |path: &str| Route::Aside(path.into());
    let (get, post) = (Method::GET, Method::POST);
    let gemini = "/v1beta/models/gemini-2.5-flash:streamGenerateContent";
    let streams = Route::Model(Target {
        path: gemini.into(),
        model: Some("gemini-2.5-flash".into()),
        shape: Some(Shape::List),
    });
    let vertex = "/publishers/anthropic/models/claude-x@1:streamRawPredict";
    let at_google = Route::Model(Target {
        path: vertex.into(),
        model: Some("claude-x@1".into()),
        shape: Some(Shape::Events),
    });
    let bedrock = "/model/eu.anthropic.claude-x-v1%3A0/invoke-with-response-stream";
    let at_amazon = Route::Model(Target {
        path: bedrock.into(),
        model: Some("eu.anthropic.claude-x-v1:0".into()),
        shape: Some(Shape::Frames),
    });
    let profile = "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx/invoke";
    let by_profile = Route::Model(Target {
        path: profile.into(),
        model: Some("arn:aws:bedrock:eu-west-1:1:inference-profile/x".into()),
        shape: Some(Shape::Whole),
    });
    let other_project = format!("/v1/projects/somebody-elses/locations/l{vertex}");
    let counted = "/publishers/anthropic/models/count-tokens:rawPredict";
    for (wire, method, path, route) in [
        (ModelApi::Anthropic, &post, other_project.as_str(), at_google),
        (ModelApi::Anthropic, &get, vertex, Route::Unknown),
        (ModelApi::Anthropic, &post, bedrock, at_amazon),
        (ModelApi::Anthropic, &post, profile, by_profile),
        (ModelApi::Anthropic, &post, "/model/m/count-tokens", side_path("/model/m/count-tokens")),
        (ModelApi::Anthropic, &get, bedrock, Route::Unknown),
        (ModelApi::Anthropic, &post, "/model/m/converse", Route::Unknown),
        (ModelApi::Anthropic, &post, "/model/a/../b/invoke", Route::Unknown),
        (ModelApi::Anthropic, &post, "/model/%2e%2e%2fx/invoke", Route::Unknown),
        (ModelApi::Anthropic, &post, "/model/..%2Fx/invoke", Route::Unknown),
        (ModelApi::Anthropic, &post, "/else/model/m/invoke", Route::Unknown),
        (ModelApi::Anthropic, &post, counted, side_path(counted)),
        (ModelApi::Anthropic, &post, "/publishers/anthropic/models/m:predict", Route::Unknown),
        (
            ModelApi::Anthropic,
            &post,
            "/publishers/anthropic/models/..%2fx:rawPredict",
            Route::Unknown,
        ),
        (ModelApi::Anthropic, &post, "/publishers/google/models/m:rawPredict", Route::Unknown),
        (ModelApi::Anthropic, &post, "/v1/messages", target("/v1/messages")),
        (ModelApi::Anthropic, &post, "/prefix/v1/messages", target("/v1/messages")),
        (
            ModelApi::Anthropic,
            &post,
            "/v1/messages/count_tokens",
            side_path("/v1/messages/count_tokens"),
        ),
        (ModelApi::Anthropic, &get, "/", Route::Here),
        (ModelApi::Anthropic, &Method::HEAD, "/prefix", Route::Here),
        (ModelApi::Anthropic, &get, "/v1/messages", Route::Unknown),
        (ModelApi::Anthropic, &post, "/v1/files", Route::Unknown),
        (ModelApi::Anthropic, &post, "/v1/responses", Route::Unknown),
        (ModelApi::Responses, &post, "/v1/responses", target("/responses")),
        (ModelApi::Responses, &get, "/v1/models", side_path("/models")),
        (ModelApi::Responses, &post, "/v1/responses/r/cancel", Route::Unknown),
        (ModelApi::Chat, &post, "/v1/chat/completions", target("/chat/completions")),
        (ModelApi::Chat, &post, "/v1/models", Route::Unknown),
        (ModelApi::Gemini, &post, gemini, streams),
        (
            ModelApi::Gemini,
            &post,
            "/v1/models/m:countTokens",
            side_path("/v1/models/m:countTokens"),
        ),
        (ModelApi::Gemini, &post, "/v1beta/models/m:batchEmbedContents", Route::Unknown),
        (ModelApi::Gemini, &post, "/v1beta/models/..%2fx:generateContent", Route::Unknown),
        (ModelApi::Gemini, &post, "/v1beta/files", Route::Unknown),
    ] {
        assert_eq!(wire.route(method, path), route, "{wire:?} {method} {path}");
    }
}

#[test]
fn chat_requests_ask_for_usage() {
    let amended = |text: &str| {
        let body = serde_json::from_str(text).unwrap();
        let amended = ModelApi::Chat.amended(text.as_bytes(), &body);
        amended.map(|text| serde_json::from_slice::<Value>(&text).unwrap())
    };
    let options = json!({"include_usage": true});
    let body = amended(r#" {"stream":true,"big":12345678901234567890}"#).unwrap();
    assert_eq!(body["stream_options"], options);
    assert_eq!(body["big"], json!(12_345_678_901_234_567_890_u64));
    let body = amended(r#"{"stream":true,"stream_options":{"x":1}}"#).unwrap();
    assert_eq!(body["stream_options"], json!({"include_usage": true, "x": 1}));
    assert_eq!(amended(r#"{"stream":false}"#), None);
    assert_eq!(amended(r#"{"stream":true,"stream_options":{"include_usage":true}}"#), None);
}

#[test]
fn sub_agents_are_recognised_by_their_headers() {
    let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
        let pair =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        pairs.iter().map(pair).collect()
    };
    let agent = |wire: ModelApi, pairs| wire.agent(&headers(pairs));
    let claude = agent(ModelApi::Anthropic, &[("x-claude-code-agent-id", "a7")]);
    assert_eq!(claude.as_deref(), Some("a7"));
    let codex = [("x-openai-subagent", "collab_spawn"), ("session_id", "s1")];
    assert_eq!(agent(ModelApi::Responses, &codex).as_deref(), Some("s1"));
    assert_eq!(agent(ModelApi::Responses, &[("session_id", "s1")]), None);
    for wire in WIRES {
        assert_eq!(agent(wire, &[]), None);
    }
}

#[test]
fn errors_have_the_format_of_the_wire() {
    let error = |wire: ModelApi| wire.error(StatusCode::BAD_REQUEST, "no more");
    assert_eq!(error(ModelApi::Anthropic)["error"]["type"], "invalid_request_error");
    assert_eq!(error(ModelApi::Chat)["error"]["type"], "invalid_request_error");
    assert_eq!(error(ModelApi::Gemini)["error"]["status"], "INVALID_ARGUMENT");
    for wire in WIRES {
        assert_eq!(error(wire)["error"]["message"], "no more", "{wire:?}");
    }
}
