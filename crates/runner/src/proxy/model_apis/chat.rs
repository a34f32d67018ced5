//! OpenAI's chat completions, which many others support, too: `POST …/chat/completions`.

use std::collections::BTreeMap;

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    AnswerReader, RequestBody, Route, SyntheticAnswer, content_text, ends_with, event, flag,
    header, list, model, number, object, target, text,
};
use crate::proxy::json_text::JsonText;
use crate::proxy::parsed_answer::{ParsedAnswer, Unreadable, input};
use crate::proxy::{ToolCall, ToolResult};

pub(super) fn route(method: &Method, path: &str) -> Route {
    let ends = ["/chat/completions", "/models"];
    match (ends_with(path, &ends), method) {
        (Some("/chat/completions"), &Method::POST) => target("/chat/completions"),
        (Some("/models"), &Method::GET) => Route::Aside("/models".to_owned()),
        _ => Route::Unknown,
    }
}

pub(super) fn read(body: &Value) -> Result<RequestBody, Unreadable> {
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or(Unreadable("there are no messages"))?;
    if !messages.iter().all(|message| message.get("role").is_some_and(Value::is_string)) {
        return Err(Unreadable("a message is nobody's"));
    }
    let tools: BTreeMap<&str, &str> = messages
        .iter()
        .flat_map(|message| list(message, "tool_calls"))
        .map(|call| (text(call, "id"), called(call)))
        .collect();
    let results = messages.iter().filter_map(|message| {
        let id = text(message, "tool_call_id");
        let named = || Some(text(message, "name")).filter(|name| !name.is_empty());
        let tool = match text(message, "role") {
            "tool" => tools.get(id).copied().or_else(named),
            "function" => named(),
            _ => return None,
        };
        Some(ToolResult {
            id: id.to_owned(),
            tool: tool.map(str::to_owned),
            output: message.get("content").map(content_text).unwrap_or_default(),
            failed: false,
        })
    });
    Ok(RequestBody {
        model: model(body),
        streams: flag(body, "stream"),
        offers_tools: !list(body, "tools").is_empty() || !list(body, "functions").is_empty(),
        results: results.collect(),
    })
}

/// The name in a call: of a function, or of a tool whose input is not JSON.
fn called(call: &Value) -> &str {
    let inner = call.get("function").or_else(|| call.get("custom"));
    inner.map(|inner| text(inner, "name")).unwrap_or_default()
}

pub(super) fn agent(headers: &HeaderMap) -> Option<String> {
    // OpenCode names the session that began this one, and this one.
    header(headers, "x-parent-session-id")?;
    header(headers, "x-session-id").or_else(|| header(headers, "x-session-affinity"))
}

/// A stream reports its usage only on request.
pub(super) fn amended(text: &[u8], body: &Value) -> Option<Vec<u8>> {
    let reports_usage = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    if !flag(body, "stream") || reports_usage {
        return None;
    }
    if body.get("stream_options").is_some() {
        let mut body = body.clone();
        let fields = body.as_object_mut()?;
        let options = fields.get("stream_options").and_then(Value::as_object).cloned();
        let mut options = options.unwrap_or_default();
        options.insert("include_usage".to_owned(), Value::Bool(true));
        fields.insert("stream_options".to_owned(), Value::Object(options));
        return Some(body.to_string().into_bytes());
    }
    // The rest of the text stays unchanged: numbers would not survive parsing and printing.
    let (_, rest) = text.split_at_checked(text.iter().position(|&byte| byte == b'{')? + 1)?;
    Some([b"{\"stream_options\":{\"include_usage\":true},".as_slice(), rest].concat())
}

/// A call that is still being received.
#[derive(Default)]
struct OpenCall {
    id: String,
    tool: String,
    input: JsonText,
    /// Whether it was reported: CLIs run a call as soon as its input is complete.
    told: bool,
}

impl OpenCall {
    fn tell(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        if std::mem::replace(&mut self.told, true) {
            return Ok(());
        }
        let input = input(self.input.text());
        parsed.call(ToolCall { id: self.id.clone(), tool: self.tool.clone(), input })
    }
}

#[derive(Default)]
pub(super) struct Reader {
    /// By the choice, and the place in it.
    open: BTreeMap<(u64, u64), OpenCall>,
    finished: bool,
}

impl Reader {
    fn choice(&mut self, choice: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let number = number(choice, "/index").unwrap_or_default();
        for key in ["delta", "message"] {
            let Some(message) = choice.get(key) else { continue };
            self.read_message(number, message, parsed)?;
        }
        if choice.get("finish_reason").is_some_and(Value::is_string) {
            self.finished = true;
            self.open.values_mut().try_for_each(|open| open.tell(parsed))?;
        }
        Ok(())
    }

    fn read_message(
        &mut self,
        choice: u64,
        message: &Value,
        parsed: &mut ParsedAnswer,
    ) -> Result<(), Unreadable> {
        parsed.say(text(message, "content"));
        parsed.wrote(text(message, "reasoning_content"));
        parsed.wrote(text(message, "reasoning"));
        for call in list(message, "tool_calls") {
            self.part(choice, call, parsed)?;
        }
        // The older format of calls, for one call at a time.
        if let Some(function) = message.get("function_call").filter(|call| call.is_object()) {
            let call = object([("index", json!(0)), ("function", function.clone())]);
            self.part(choice, &Value::Object(call), parsed)?;
        }
        Ok(())
    }

    fn part(
        &mut self,
        choice: u64,
        call: &Value,
        parsed: &mut ParsedAnswer,
    ) -> Result<(), Unreadable> {
        let inner = call.get("function").or_else(|| call.get("custom")).unwrap_or(&Value::Null);
        let place = number(call, "/index").unwrap_or_else(|| {
            let of_choice = self.open.range((choice, 0)..=(choice, u64::MAX));
            let count = of_choice.count() as u64;
            // Without a place: one with an id is another, one without continues the last.
            if text(call, "id").is_empty() { count.saturating_sub(1) } else { count }
        });
        let open = self.open.entry((choice, place)).or_default();
        for (current, received) in
            [(&mut open.id, text(call, "id")), (&mut open.tool, text(inner, "name"))]
        {
            if current.is_empty() && !received.is_empty() {
                parsed.assemble(received)?;
                received.clone_into(current);
            }
        }
        let received = match inner.get("arguments").or_else(|| inner.get("input")) {
            Some(Value::String(received)) => received.clone(),
            None | Some(Value::Null) => return Ok(()),
            Some(other) => other.to_string(),
        };
        if open.told && !received.trim().is_empty() {
            return Err(Unreadable("a call goes on after its input was whole"));
        }
        parsed.assemble(&received)?;
        open.input.push(&received);
        // Free text may look whole before it is.
        let free = call.get("custom").is_some();
        if !free && open.input.is_whole() { open.tell(parsed) } else { Ok(()) }
    }
}

fn take_usage(usage: &Value, parsed: &mut ParsedAnswer) {
    let cached = number(usage, "/prompt_tokens_details/cached_tokens").unwrap_or_default();
    let prompt = number(usage, "/prompt_tokens").unwrap_or_default();
    parsed.usage.input = prompt.saturating_sub(cached);
    parsed.usage.cache_read = cached;
    parsed.usage.output = number(usage, "/completion_tokens").unwrap_or_default();
}

impl AnswerReader for Reader {
    fn event(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        if *event == "[DONE]" {
            self.end(parsed)?;
            parsed.ended = true;
            return Ok(());
        }
        if parsed.usage.model.is_empty() {
            text(event, "model").clone_into(&mut parsed.usage.model);
        }
        list(event, "choices").iter().try_for_each(|choice| self.choice(choice, parsed))?;
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            take_usage(usage, parsed);
        }
        Ok(())
    }

    fn whole(&mut self, answer: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        self.event(answer, parsed)?;
        self.finished = true;
        self.end(parsed)
    }

    fn end(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        self.open.values_mut().try_for_each(|open| open.tell(parsed))?;
        // Not every host reports the end.
        parsed.ended |= self.finished;
        Ok(())
    }
}

pub(super) fn play(played: SyntheticAnswer<'_>, model: &str, streams: bool) -> String {
    let (reason, mut message) = match played {
        SyntheticAnswer::Call(ToolCall { id, tool, input }) => {
            let function = json!({"name": tool, "arguments": input.to_string()});
            let call = json!({"index": 0, "id": id, "type": "function", "function": function});
            ("tool_calls", json!({"role": "assistant", "content": null, "tool_calls": [call]}))
        }
        SyntheticAnswer::Say(words) => ("stop", json!({"role": "assistant", "content": words})),
    };
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let part = |kind: &str, choices: Value, usage: Value| {
        json!({
            "id": "chatcmpl-bailiwick", "object": kind, "created": 0, "model": model,
            "choices": choices, "usage": usage,
        })
    };
    if !streams {
        let choice = json!({"index": 0, "message": message.take(), "finish_reason": reason});
        return part("chat.completion", json!([choice]), usage).to_string();
    }
    let chunk =
        |choices: Value, usage: Value| event(None, &part("chat.completion.chunk", choices, usage));
    let choice = |delta: Value, reason: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), Value::Null)
    };
    let first_chunk = choice(message, Value::Null);
    let last_chunk = choice(json!({}), json!(reason));
    format!("{first_chunk}{last_chunk}{}data: [DONE]\n\n", chunk(json!([]), usage))
}

pub(super) fn error(status: StatusCode, message: &str) -> Value {
    let kind = match status {
        StatusCode::NOT_FOUND => "not_found_error",
        _ if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}
