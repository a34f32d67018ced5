//! Anthropic's messages: `POST …/v1/messages`, at Google's
//! `POST …/publishers/anthropic/models/NAME:streamRawPredict`, at Amazon's
//! `POST /model/NAME/invoke-with-response-stream`.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    AnswerReader, RequestBody, Route, SyntheticAnswer, Target, content_text, ends_with, flag, list,
    model, named_events, number, target, text,
};
use crate::proxy::bodies::Shape;
use crate::proxy::parsed_answer::{ParsedAnswer, Unreadable, input};
use crate::proxy::{ToolCall, ToolResult};

pub(super) fn route(method: &Method, path: &str) -> Route {
    let ends = ["/v1/messages", "/v1/messages/count_tokens"];
    match ends_with(path, &ends).filter(|_| method == Method::POST) {
        Some("/v1/messages") => target("/v1/messages"),
        Some(aside) => Route::Aside(aside.to_owned()),
        None if method == Method::POST && path.starts_with(AT_AMAZON) => at_amazon(path),
        None if method == Method::POST => at_google(path),
        None => Route::Unknown,
    }
}

/// The base determines what precedes the publisher, above all the project: a program inside cannot spend what
/// belongs to another.
fn at_google(path: &str) -> Route {
    const BEFORE: &str = "/publishers/anthropic/models/";
    let last = path.rsplit_once(BEFORE).and_then(|(_, last)| last.split_once(':'));
    let Some((model, verb)) = last else { return Route::Unknown };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
    if model.is_empty() || !model.chars().all(plain) {
        return Route::Unknown;
    }
    let path = format!("{BEFORE}{model}:{verb}");
    let shape = match verb {
        "rawPredict" if model == "count-tokens" => return Route::Aside(path),
        "streamRawPredict" => Shape::Events,
        "rawPredict" => Shape::Whole,
        _ => return Route::Unknown,
    };
    Route::Model(Target { path, model: Some(model.to_owned()), shape: Some(shape) })
}

const AT_AMAZON: &str = "/model/";

/// The name of a model, or that of a profile, whose colons and slashes are written in another way.
fn at_amazon(path: &str) -> Route {
    let last = path.strip_prefix(AT_AMAZON).and_then(|last| last.split_once('/'));
    let Some((written, verb)) = last else { return Route::Unknown };
    let model = written.replace("%3A", ":").replace("%2F", "/");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/".contains(c);
    // A component that leads elsewhere is not a name.
    let leads = |part: &str| part.is_empty() || part.chars().all(|c| c == '.');
    if !model.chars().all(plain) || model.split('/').any(leads) {
        return Route::Unknown;
    }
    let shape = match verb {
        "count-tokens" => return Route::Aside(path.to_owned()),
        "invoke-with-response-stream" => Shape::Frames,
        "invoke" => Shape::Whole,
        _ => return Route::Unknown,
    };
    Route::Model(Target { path: path.to_owned(), model: Some(model), shape: Some(shape) })
}

pub(super) fn read(body: &Value) -> Result<RequestBody, Unreadable> {
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or(Unreadable("there are no messages"))?;
    let known = |message: &Value| {
        message.get("content").is_some_and(|content| content.is_string() || content.is_array())
    };
    if !messages.iter().all(known) {
        return Err(Unreadable("a message has no content"));
    }
    let parts = || messages.iter().flat_map(|message| list(message, "content"));
    let tools: BTreeMap<&str, &str> = parts()
        .filter(|part| text(part, "type") == "tool_use")
        .map(|part| (text(part, "id"), text(part, "name")))
        .collect();
    let results = parts().filter(|part| text(part, "type") == "tool_result").map(|part| {
        let id = text(part, "tool_use_id");
        ToolResult {
            id: id.to_owned(),
            tool: tools.get(id).map(|&tool| tool.to_owned()),
            output: part.get("content").map(content_text).unwrap_or_default(),
            failed: flag(part, "is_error"),
        }
    });
    Ok(RequestBody {
        model: model(body),
        streams: flag(body, "stream"),
        offers_tools: !list(body, "tools").is_empty(),
        results: results.collect(),
    })
}

/// A call that is still being received.
struct OpenCall {
    id: String,
    tool: String,
    /// The initial input of the block; used if nothing follows.
    begun: Value,
    json: String,
}

#[derive(Default)]
pub(super) struct Reader {
    open: BTreeMap<u64, OpenCall>,
}

impl Reader {
    fn begin(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let Some(block) = event.get("content_block") else { return Ok(()) };
        match text(block, "type") {
            "tool_use" => {
                let (id, tool) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                let begun = block.get("input").cloned().unwrap_or_else(|| json!({}));
                parsed.assemble(&id)?;
                parsed.assemble(&tool)?;
                let open = OpenCall { id, tool, begun, json: String::new() };
                if self.open.insert(place(event), open).is_some() {
                    return Err(Unreadable("two parts of an answer have one place"));
                }
            }
            "text" => parsed.say(text(block, "text")),
            _ => {}
        }
        Ok(())
    }

    fn go_on(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let Some(delta) = event.get("delta") else { return Ok(()) };
        match text(delta, "type") {
            "text_delta" => parsed.say(text(delta, "text")),
            "thinking_delta" => parsed.wrote(text(delta, "thinking")),
            "input_json_delta" => {
                let part = text(delta, "partial_json");
                // The others are tools that the model's host runs itself.
                if let Some(open) = self.open.get_mut(&place(event)) {
                    parsed.assemble(part)?;
                    open.json.push_str(part);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn place(event: &Value) -> u64 {
    number(event, "/index").unwrap_or_default()
}

fn close(open: OpenCall, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
    let OpenCall { id, tool, begun, json } = open;
    let input = if json.trim().is_empty() { begun } else { input(&json) };
    parsed.call(ToolCall { id, tool, input })
}

/// Its usage so far. It only grows; hosts that leave a number out later report 0.
fn take_usage(usage: &Value, parsed: &mut ParsedAnswer) {
    for (field, key) in [
        (&mut parsed.usage.input, "/input_tokens"),
        (&mut parsed.usage.output, "/output_tokens"),
        (&mut parsed.usage.cache_read, "/cache_read_input_tokens"),
        (&mut parsed.usage.cache_write, "/cache_creation_input_tokens"),
    ] {
        *field = number(usage, key).unwrap_or_default().max(*field);
    }
}

impl AnswerReader for Reader {
    fn event(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        match text(event, "type") {
            "message_start" => match event.get("message") {
                Some(message) => take(message, parsed),
                None => Ok(()),
            },
            "content_block_start" => self.begin(event, parsed),
            "content_block_delta" => self.go_on(event, parsed),
            "content_block_stop" => match self.open.remove(&place(event)) {
                Some(open) => close(open, parsed),
                None => Ok(()),
            },
            "message_delta" => {
                event.get("usage").into_iter().for_each(|usage| take_usage(usage, parsed));
                Ok(())
            }
            "message_stop" => {
                self.end(parsed)?;
                parsed.ended = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn whole(&mut self, answer: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        take(answer, parsed)?;
        parsed.ended = true;
        Ok(())
    }

    fn end(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let open = std::mem::take(&mut self.open);
        open.into_values().try_for_each(|open| close(open, parsed))
    }
}

/// A message, as far as it goes.
fn take(message: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
    text(message, "model").clone_into(&mut parsed.usage.model);
    message.get("usage").into_iter().for_each(|usage| take_usage(usage, parsed));
    for part in list(message, "content") {
        match text(part, "type") {
            "tool_use" => {
                let input = part.get("input").cloned().unwrap_or_default();
                parsed.assemble(&input.to_string())?;
                let (id, tool) = (text(part, "id").to_owned(), text(part, "name").to_owned());
                parsed.call(ToolCall { id, tool, input })?;
            }
            "text" => parsed.say(text(part, "text")),
            "thinking" => parsed.wrote(text(part, "thinking")),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn play(played: SyntheticAnswer<'_>, model: &str, streams: bool) -> String {
    let (stop, block) = match played {
        SyntheticAnswer::Call(ToolCall { id, tool, input }) => {
            ("tool_use", json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
        }
        SyntheticAnswer::Say(words) => ("end_turn", json!({"type": "text", "text": words})),
    };
    let message = |content: Value, stop: Value| {
        let usage = json!({
            "input_tokens": 1, "output_tokens": 1,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        });
        json!({
            "id": "msg_bailiwick", "type": "message", "role": "assistant", "model": model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    };
    if !streams {
        return message(json!([block]), json!(stop)).to_string();
    }
    let (begun, delta) = match played {
        SyntheticAnswer::Call(ToolCall { id, tool, input }) => (
            json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
        ),
        SyntheticAnswer::Say(words) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": words}))
        }
    };
    let stop = json!({"stop_reason": stop, "stop_sequence": null});
    named_events(&[
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": begun}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ])
}

pub(super) fn error(status: StatusCode, message: &str) -> Value {
    let kind = match status {
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        _ if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
