//! Google's `generateContent`: `POST …/v1beta/models/NAME:streamGenerateContent`.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    AnswerReader, RequestBody, Route, SyntheticAnswer, Target, event, flag, list, model, number,
    text,
};
use crate::proxy::bodies::Shape;
use crate::proxy::parsed_answer::{ParsedAnswer, Unreadable};
use crate::proxy::{ToolCall, ToolResult};

const VERSIONS: [&str; 3] = ["v1", "v1beta", "v1alpha"];

pub(super) fn route(method: &Method, path: &str) -> Route {
    let mut parts = path.rsplit('/');
    let (Some(last), Some("models"), Some(version)) = (parts.next(), parts.next(), parts.next())
    else {
        return Route::Unknown;
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let Some((model, verb)) = last.split_once(':') else { return Route::Unknown };
    let known = VERSIONS.contains(&version) && !model.is_empty() && model.chars().all(plain);
    if !known || method != Method::POST {
        return Route::Unknown;
    }
    let path = format!("/{version}/models/{model}:{verb}");
    let model = Some(model.to_owned());
    match verb {
        "streamGenerateContent" => Route::Model(Target { path, model, shape: Some(Shape::List) }),
        "generateContent" => Route::Model(Target { path, model, shape: Some(Shape::Whole) }),
        "countTokens" => Route::Aside(path),
        _ => Route::Unknown,
    }
}

pub(super) fn read(body: &Value) -> Result<RequestBody, Unreadable> {
    let contents = body.get("contents").and_then(Value::as_array);
    let contents = contents.ok_or(Unreadable("there are no contents"))?;
    // Google accepts a part without a list around it; no CLI sends that.
    if !contents.iter().all(|content| content.get("parts").is_some_and(Value::is_array)) {
        return Err(Unreadable("a content has no list of parts"));
    }
    let parts = contents.iter().flat_map(|content| list(content, "parts"));
    let answers = parts.filter_map(|part| either(part, "functionResponse", "function_response"));
    let results = answers.map(|answer| {
        let response = answer.get("response").unwrap_or(&Value::Null);
        ToolResult {
            id: text(answer, "id").to_owned(),
            tool: Some(text(answer, "name").to_owned()).filter(|name| !name.is_empty()),
            output: output(response),
            failed: response.get("error").is_some_and(|error| !error.is_null()),
        }
    });
    let offers =
        |tools: &Value| either(tools, "functionDeclarations", "function_declarations").is_some();
    Ok(RequestBody {
        // The path names it; a body that does so too is checked as well.
        model: model(body).map(|name| name.trim_start_matches("models/").to_owned()),
        streams: false,
        offers_tools: list(body, "tools").iter().any(offers),
        results: results.collect(),
    })
}

/// A field by its name in JSON, or by its name in Google's protobuf definition, which is accepted as well.
fn either<'a>(value: &'a Value, name: &str, other: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| value.get(other))
}

fn output(response: &Value) -> String {
    let only = ["output", "error"].map(|key| response.get(key).and_then(Value::as_str));
    match (only, response.as_object().map(serde_json::Map::len)) {
        ([Some(text), None] | [None, Some(text)], Some(1)) => text.to_owned(),
        _ => response.to_string(),
    }
}

/// Each event is complete; nothing needs to be assembled.
#[derive(Default)]
pub(super) struct Reader {
    finished: bool,
}

impl Reader {
    fn part(part: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        let words = text(part, "text");
        if flag(part, "thought") {
            parsed.wrote(words);
        } else {
            parsed.say(words);
        }
        let Some(call) = either(part, "functionCall", "function_call") else { return Ok(()) };
        if call.get("partialArgs").is_some() || flag(call, "willContinue") {
            return Err(Unreadable("a call comes in parts, which are not understood"));
        }
        let input = call.get("args").cloned().unwrap_or_else(|| json!({}));
        parsed.assemble(&input.to_string())?;
        let (id, tool) = (text(call, "id").to_owned(), text(call, "name").to_owned());
        parsed.call(ToolCall { id, tool, input })
    }
}

fn take_usage(usage: &Value, parsed: &mut ParsedAnswer) {
    let count = |name: &str| number(usage, &format!("/{name}TokenCount")).unwrap_or_default();
    let cached = count("cachedContent");
    let read = count("prompt").saturating_add(count("toolUsePrompt"));
    parsed.usage.input = read.saturating_sub(cached);
    parsed.usage.cache_read = cached;
    let written = count("candidates").saturating_add(count("thoughts"));
    parsed.usage.output = written.max(parsed.usage.output);
}

impl AnswerReader for Reader {
    fn event(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        if parsed.usage.model.is_empty() {
            text(event, "modelVersion").clone_into(&mut parsed.usage.model);
        }
        if let Some(usage) = event.get("usageMetadata") {
            take_usage(usage, parsed);
        }
        for candidate in list(event, "candidates") {
            let none = Value::Null;
            let content = candidate.get("content").unwrap_or(&none);
            list(content, "parts").iter().try_for_each(|part| Self::part(part, parsed))?;
            self.finished |= candidate.get("finishReason").is_some_and(Value::is_string);
        }
        Ok(())
    }

    fn whole(&mut self, answer: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        // Without `alt=sse`, a stream is a list of events.
        let events = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
        events.iter().try_for_each(|event| self.event(event, parsed))?;
        self.end(parsed)
    }

    fn end(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable> {
        // Only the end of the stream means that no more data comes.
        parsed.ended |= self.finished;
        Ok(())
    }
}

/// The value that Google accepts in place of its own signature; calls without any are refused.
const SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn play(played: SyntheticAnswer<'_>, model: &str, streams: bool) -> String {
    let part = match played {
        SyntheticAnswer::Call(ToolCall { id, tool, input }) => json!({
            "functionCall": {"id": id, "name": tool, "args": input}, "thoughtSignature": SIGNATURE,
        }),
        SyntheticAnswer::Say(words) => json!({"text": words}),
    };
    let content = json!({"role": "model", "parts": [part]});
    let usage = json!({"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2});
    let answer = json!({
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": usage, "modelVersion": model, "responseId": "bailiwick",
    });
    if streams { event(None, &answer) } else { answer.to_string() }
}

pub(super) fn error(status: StatusCode, message: &str) -> Value {
    let word = match status {
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        _ if status.is_server_error() => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": status.as_u16(), "message": message, "status": word}})
}
