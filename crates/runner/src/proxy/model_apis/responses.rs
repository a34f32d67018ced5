//! OpenAI's responses, which Codex uses: `POST …/responses`.

use std::collections::BTreeMap;

use hyper::Method;
use hyper::header::HeaderMap;
use serde_json::{Value, json};

use super::{
    AnswerReader, RequestBody, Route, SyntheticAnswer, content_text, ends_with, flag, header, list,
    model, named_events, number, target, text,
};
use crate::proxy::parsed_answer::{ParsedAnswer, Unreadable, input};
use crate::proxy::{ToolCall, ToolResult};

pub(super) fn route(method: &Method, path: &str) -> Route {
    let ends = ["/responses", "/models"];
    match (ends_with(path, &ends), method) {
        (Some("/responses"), &Method::POST) => target("/responses"),
        (Some("/models"), &Method::GET) => Route::Aside("/models".to_owned()),
        _ => Route::Unknown,
    }
}

pub(super) fn read(body: &Value) -> Result<RequestBody, Unreadable> {
    let none = Vec::new();
    let items = match body.get("input") {
        Some(Value::Array(items)) => items,
        Some(Value::String(_)) => &none,
        Some(_) | None => return Err(Unreadable("there is no input")),
    };
    if !items.iter().all(Value::is_object) {
        return Err(Unreadable("a part of the input is none"));
    }
    let is_call = |item: &&Value| text(item, "type").ends_with("_call");
    let tools: BTreeMap<&str, String> =
        items.iter().filter(is_call).map(|item| (text(item, "call_id"), called(item))).collect();
    let is_output = |item: &&Value| text(item, "type").ends_with("_output");
    let results = items.iter().filter(is_output).map(|item| {
        let id = text(item, "call_id");
        ToolResult {
            id: id.to_owned(),
            tool: tools.get(id).cloned(),
            output: output(item),
            failed: item.pointer("/output/success") == Some(&Value::Bool(false)),
        }
    });
    let later = items.iter().any(|item| text(item, "type") == "additional_tools");
    Ok(RequestBody {
        model: model(body),
        streams: flag(body, "stream"),
        offers_tools: later || !list(body, "tools").is_empty(),
        results: results.collect(),
    })
}

/// The result: under `output`, or in separate fields.
fn output(item: &Value) -> String {
    match item.get("output") {
        Some(Value::Object(fields)) if fields.contains_key("content") => {
            fields.get("content").map(content_text).unwrap_or_default()
        }
        Some(output) => content_text(output),
        None => item.to_string(),
    }
}

/// The tool of a call; with its namespace, where it has one.
fn called(item: &Value) -> String {
    let name = match text(item, "name") {
        "" => text(item, "type").trim_end_matches("_call"),
        name => name,
    };
    match text(item, "namespace") {
        "" => name.to_owned(),
        space => format!("{space}.{name}"),
    }
}

pub(super) fn agent(headers: &HeaderMap) -> Option<String> {
    let kind = header(headers, "x-openai-subagent");
    let parent = header(headers, "x-codex-parent-thread-id");
    if kind.is_none() && parent.is_none() {
        return None;
    }
    let names = ["thread-id", "thread_id", "session-id", "session_id", "conversation_id"];
    names.iter().find_map(|name| header(headers, name)).or(kind).or(parent)
}

#[derive(Default)]
pub(super) struct Reader {
    /// The items that have begun, by their place.
    open: BTreeMap<u64, Value>,
    /// Words of a message that is not whole.
    words: String,
}

/// The call in an item. A call that the model's host runs itself has no name for the result.
fn call(item: &Value) -> Option<ToolCall> {
    let id = text(item, "call_id");
    if !text(item, "type").ends_with("_call") || id.is_empty() {
        return None;
    }
    let input = match ["arguments", "input", "action", "operation"].map(|key| item.get(key)) {
        [Some(Value::String(arguments)), ..] => input(arguments),
        [Some(present), ..]
        | [_, Some(present), ..]
        | [_, _, Some(present), _]
        | [.., Some(present)] => present.clone(),
        [None, None, None, None] => item.clone(),
    };
    Some(ToolCall { id: id.to_owned(), tool: called(item), input })
}

impl Reader {
    fn done(&mut self, item: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        if let Some(call) = call(item) {
            return tell(call, parsed);
        }
        if text(item, "type") == "message" {
            let words: String =
                list(item, "content").iter().map(|part| text(part, "text")).collect();
            self.words.clear();
            parsed.say(&words);
        }
        Ok(())
    }

    /// The input of a call is complete, before the call is reported.
    fn input_done(
        &mut self,
        event: &Value,
        key: &str,
        parsed: &mut ParsedAnswer,
    ) -> Result<(), Unreadable> {
        let place = number(event, "/output_index").unwrap_or_default();
        let Some(mut item) = self.open.get(&place).cloned() else { return Ok(()) };
        if let (Some(fields), Some(input)) = (item.as_object_mut(), event.get(key)) {
            fields.insert(key.to_owned(), input.clone());
        }
        call(&item).map_or(Ok(()), |call| tell(call, parsed))
    }

    fn ended(&mut self, response: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        text(response, "model").clone_into(&mut parsed.usage.model);
        for call in list(response, "output").iter().filter_map(call) {
            tell(call, parsed)?;
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            let cached = number(usage, "/input_tokens_details/cached_tokens").unwrap_or_default();
            let read = number(usage, "/input_tokens").unwrap_or_default();
            parsed.usage.input = read.saturating_sub(cached);
            parsed.usage.cache_read = cached;
            parsed.usage.output = number(usage, "/output_tokens").unwrap_or_default();
        }
        self.end(parsed)?;
        parsed.ended = true;
        Ok(())
    }
}

fn tell(call: ToolCall, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
    if !parsed.calls.contains(&call) {
        parsed.assemble(&call.input.to_string())?;
    }
    parsed.call_once(call)
}

impl AnswerReader for Reader {
    fn event(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let none = Value::Null;
        let item = event.get("item").unwrap_or(&none);
        let place = number(event, "/output_index").unwrap_or_default();
        match text(event, "type") {
            "response.output_item.added" if text(item, "type").ends_with("_call") => {
                parsed.assemble(&item.to_string())?;
                self.open.insert(place, item.clone());
            }
            "response.output_item.done" => {
                self.open.remove(&place);
                self.done(item, parsed)?;
            }
            "response.function_call_arguments.done" => {
                self.input_done(event, "arguments", parsed)?
            }
            "response.custom_tool_call_input.done" => self.input_done(event, "input", parsed)?,
            // Repeated when the message is complete; until then, only this much of it is kept.
            "response.output_text.delta" if self.words.len() < 1 << 20 => {
                self.words.push_str(text(event, "delta"));
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.done" => {
                self.ended(event.get("response").unwrap_or(&none), parsed)?;
            }
            kind if kind.ends_with(".delta") => parsed.wrote(text(event, "delta")),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, answer: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        list(answer, "output").iter().try_for_each(|item| self.done(item, parsed))?;
        self.ended(answer, parsed)
    }

    fn end(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        parsed.say(&std::mem::take(&mut self.words));
        // An incomplete call has no input, and no CLI can have run it.
        self.open.clear();
        Ok(())
    }
}

pub(super) fn play(played: SyntheticAnswer<'_>, model: &str, streams: bool) -> String {
    let item = match played {
        SyntheticAnswer::Call(call) => call_item(call),
        SyntheticAnswer::Say(words) => json!({
            "type": "message", "id": "msg_bailiwick", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": words, "annotations": []}],
        }),
    };
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    });
    let response = json!({
        "id": "resp_bailiwick", "object": "response", "created_at": 0, "status": "completed",
        "model": model, "output": [item], "usage": usage,
    });
    if !streams {
        return response.to_string();
    }
    let begun = json!({
        "id": "resp_bailiwick", "object": "response", "created_at": 0, "status": "in_progress",
        "model": model, "output": [],
    });
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    if let SyntheticAnswer::Say(words) = played {
        events.push(json!({
            "type": "response.output_text.delta", "item_id": "msg_bailiwick", "output_index": 0,
            "content_index": 0, "delta": words,
        }));
    }
    events.extend([
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response}),
    ]);
    named_events(&events)
}

/// A text as input makes a free-form call; a dot in the name separates the namespace.
fn call_item(call: &ToolCall) -> Value {
    let (space, name) = match call.tool.rsplit_once('.') {
        Some((space, name)) => (Some(space), name),
        None => (None, call.tool.as_str()),
    };
    let mut item = json!({
        "id": format!("fc_{}", call.id), "call_id": call.id, "name": name, "status": "completed",
    });
    if let Some(fields) = item.as_object_mut() {
        let (kind, key, input) = match &call.input {
            Value::String(text) => ("custom_tool_call", "input", text.clone()),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => ("function_call", "arguments", other.to_string()),
        };
        fields.insert("type".to_owned(), json!(kind));
        fields.insert(key.to_owned(), json!(input));
        if let Some(space) = space {
            fields.insert("namespace".to_owned(), json!(space));
        }
    }
    item
}
