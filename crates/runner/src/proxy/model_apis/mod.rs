//! The APIs of models: one file each; nothing about them is outside this module.

mod anthropic;
mod chat;
mod gemini;
mod responses;
mod server_side;
#[cfg(test)]
mod tests;

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use serde_json::{Map, Value};

use super::bodies::Shape;
use super::parsed_answer::{ParsedAnswer, Unreadable};
use super::{ModelApi, ToolCall, ToolResult};

pub(super) use server_side::ServerSide;

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Nowhere: the proxy answers that it is there.
    Here,
    /// To the model, by this path behind the base.
    Model(Target),
    /// To the model's host, for a request that is not a turn: a list of models, a count of tokens.
    Aside(String),
    /// Nowhere that this wire has.
    Unknown,
}

/// The parsed path of a model request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Behind the base.
    pub(super) path: String,
    /// The model, if the path names it.
    pub(super) model: Option<String>,
    /// The format of the response, if the path determines it.
    pub(super) shape: Option<Shape>,
}

/// The parsed body of a model request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestBody {
    pub(super) model: Option<String>,
    pub(super) streams: bool,
    pub(super) offers_tools: bool,
    pub(super) results: Vec<ToolResult>,
}

/// A response that the proxy creates itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum SyntheticAnswer<'a> {
    Call(&'a ToolCall),
    Say(&'a str),
}

/// Parses a response, event by event or whole.
pub(super) trait AnswerReader: Send {
    /// One event of a stream.
    fn event(&mut self, event: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable>;

    /// Parses a response that is not a stream.
    fn whole(&mut self, answer: &Value, parsed: &mut ParsedAnswer) -> Result<(), Unreadable>;

    /// The end of the response: unfinished calls are calls as well.
    fn end(&mut self, parsed: &mut ParsedAnswer) -> Result<(), Unreadable>;
}

impl ModelApi {
    pub(super) fn route(self, method: &Method, path: &str) -> Route {
        if method == Method::HEAD || (method == Method::GET && path == "/") {
            return Route::Here;
        }
        match self {
            Self::Anthropic => anthropic::route(method, path),
            Self::Responses => responses::route(method, path),
            Self::Chat => chat::route(method, path),
            Self::Gemini => gemini::route(method, path),
        }
    }

    pub(super) fn read(self, body: &Value) -> Result<RequestBody, Unreadable> {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(body),
        }
    }

    /// The sub-agent that sent it, if the CLI reports it.
    pub(super) fn agent(self, headers: &HeaderMap) -> Option<String> {
        match self {
            Self::Anthropic => header(headers, "x-claude-code-agent-id"),
            Self::Responses => responses::agent(headers),
            Self::Chat => chat::agent(headers),
            Self::Gemini => None,
        }
    }

    /// The body to send in place of this one, if it must be changed.
    pub(super) fn amended(self, text: &[u8], body: &Value) -> Option<Vec<u8>> {
        match self {
            Self::Chat => chat::amended(text, body),
            Self::Anthropic | Self::Responses | Self::Gemini => None,
        }
    }

    pub(super) fn reader(self) -> Box<dyn AnswerReader> {
        match self {
            Self::Anthropic => Box::new(anthropic::Reader::default()),
            Self::Responses => Box::new(responses::Reader::default()),
            Self::Chat => Box::new(chat::Reader::default()),
            Self::Gemini => Box::new(gemini::Reader::default()),
        }
    }

    /// An answer of ours, as a stream or whole.
    pub(super) fn play(self, played: SyntheticAnswer<'_>, model: &str, streams: bool) -> String {
        match self {
            Self::Anthropic => anthropic::play(played, model, streams),
            Self::Responses => responses::play(played, model, streams),
            Self::Chat => chat::play(played, model, streams),
            Self::Gemini => gemini::play(played, model, streams),
        }
    }

    pub(super) fn error(self, status: StatusCode, message: &str) -> Value {
        match self {
            Self::Anthropic => anthropic::error(status, message),
            Self::Responses | Self::Chat => chat::error(status, message),
            Self::Gemini => gemini::error(status, message),
        }
    }
}

/// The path from its last component that is one of `ends`, if it has one.
fn ends_with<'a>(path: &str, ends: &[&'a str]) -> Option<&'a str> {
    ends.iter().copied().find(|end| path.ends_with(end))
}

/// A target determined only by its path.
fn target(path: &str) -> Route {
    Route::Model(Target { path: path.to_owned(), model: None, shape: None })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

fn model(body: &Value) -> Option<String> {
    let model = text(body, "model");
    (!model.is_empty()).then(|| model.to_owned())
}

fn flag(body: &Value, key: &str) -> bool {
    body.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// All text in a value: a string, the text of a part, the parts of a list. Other values are included as JSON, so
/// that nothing in the prompt is left out.
fn content_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(content_text).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => match fields.get("text") {
            Some(Value::String(text)) => text.clone(),
            Some(_) | None => value.to_string(),
        },
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A server-sent event; without a name it is data alone.
fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n")
}

/// Events whose names are also the type of their data.
fn named_events(events: &[Value]) -> String {
    events.iter().map(|data| event(Some(text(data, "type")), data)).collect()
}

/// An object of these fields.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
