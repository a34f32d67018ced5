//! A model that follows a script, on loopback, in the wire format of each agent CLI.
//!
//! Which turn is next is read off the conversation itself, never counted by the server: a request
//! that is sent twice gets the same answer, and sub-agents do not get in each other's way.

mod amazon;
mod anthropic;
mod chat;
mod gemini;
pub(crate) mod http;
mod responses;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use http::{Answer, Server};

/// The input tokens of every response.
pub const INPUT_TOKENS: u64 = 100;
/// The output tokens of every response.
pub const OUTPUT_TOKENS: u64 = 10;
/// The response to a request without tools: those are side calls, such as for a title.
pub const SIDE_ANSWER: &str = "a side answer";

/// A turn of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Requests tool calls, all in one response.
    Calls(Vec<Call>),
    /// Writes this text, and ends.
    Say(String),
}

/// A tool call; each wire format has its own names.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Run a shell command.
    Shell {
        /// The command.
        command: String,
    },
    /// Create a file.
    Write {
        /// The file.
        path: String,
        /// All of its text.
        content: String,
    },
    /// Change a file.
    Edit {
        /// The file.
        path: String,
        /// The text that is there, whole lines.
        old: String,
        /// The replacement.
        new: String,
    },
    /// Read a file; a shell command if the CLI has no tool for it.
    Read {
        /// The file.
        path: String,
    },
    /// Have another agent do something.
    Delegate {
        /// Its task.
        prompt: String,
    },
    /// A tool by the CLI's own name. For Codex, a text as input makes a free-form call, and `namespace.name` names a
    /// tool in a namespace.
    Raw {
        /// The CLI's name.
        name: String,
        /// The CLI's input.
        input: Value,
    },
}

impl Call {
    /// Run a shell command.
    pub fn shell(command: impl Into<String>) -> Self {
        Self::Shell { command: command.into() }
    }

    /// Create a file.
    pub fn write(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self::Write { path: path.into(), content: content.into() }
    }

    /// Change a file.
    pub fn edit(path: impl Into<String>, old: &str, new: &str) -> Self {
        Self::Edit { path: path.into(), old: old.to_owned(), new: new.to_owned() }
    }

    /// Read a file.
    pub fn read(path: impl Into<String>) -> Self {
        Self::Read { path: path.into() }
    }

    /// Have another agent do something.
    pub fn delegate(prompt: impl Into<String>) -> Self {
        Self::Delegate { prompt: prompt.into() }
    }

    /// A tool by the CLI's own name for it.
    pub fn raw(name: &str, input: Value) -> Self {
        Self::Raw { name: name.to_owned(), input }
    }
}

impl Turn {
    /// Writes this text, and ends.
    pub fn say(text: impl Into<String>) -> Self {
        Self::Say(text.into())
    }
}

/// The turns of a model.
#[derive(Debug, Clone, Default)]
pub struct Script {
    turns: Vec<Turn>,
    others: Vec<(String, Vec<Turn>)>,
    /// The name of a script that continues a conversation.
    continues: Option<String>,
    /// The turn whose first answer breaks off.
    broken: Option<usize>,
}

impl Script {
    /// These turns, one after the other.
    pub fn new(turns: Vec<Turn>) -> Self {
        Self { turns, others: Vec::new(), continues: None, broken: None }
    }

    /// These turns, whatever came before in the conversation: one that is resumed. The calls are
    /// `call_<name>_<turn>_<place in the turn>`; every turn but the last must request tools.
    pub fn continuing(name: &str, turns: Vec<Turn>) -> Self {
        Self { turns, others: Vec::new(), continues: Some(name.to_owned()), broken: None }
    }

    /// The first response of this turn, counted from 0, is cut off behind its calls. These calls are `broken_…`; a
    /// repeated request gets other calls.
    pub fn breaking_off(mut self, turn: usize) -> Self {
        self.broken = Some(turn);
        self
    }

    /// Other turns for a conversation whose user text starts with `marker`: a sub-agent's.
    pub fn when(mut self, marker: &str, turns: Vec<Turn>) -> Self {
        self.others.push((marker.to_owned(), turns));
        self
    }

    /// Whether the calls of this name are in the turn that breaks off.
    fn breaks(&self, name: &str) -> bool {
        self.broken.is_some_and(|turn| name == format!("call_0_{turn}"))
    }

    /// The turn that is next, and the name by which its calls are known.
    fn next(&self, conversation: &Conversation) -> (String, Turn) {
        let turn = conversation.turn;
        if !conversation.offers_tools {
            return ("side".to_owned(), Turn::say(SIDE_ANSWER));
        }
        let route = self.others.iter().position(|(marker, _)| conversation.user.contains(marker));
        let turns = route.map_or(&self.turns, |place| &self.others[place].1);
        let (route, turn) = match (route, &self.continues) {
            (None, Some(name)) => {
                let ours = format!("call_{name}_");
                let results = conversation.results.iter();
                let results: Vec<_> =
                    results.filter(|result| result.call.starts_with(&ours)).cloned().collect();
                (name.clone(), rounds(&results))
            }
            (route, _) => (route.map_or(0, |place| place + 1).to_string(), turn),
        };
        // Past its end a script repeats its last words, so that no CLI runs on for ever.
        let next = turns.get(turn).cloned().unwrap_or_else(|| match turns.last() {
            Some(Turn::Say(text)) => Turn::say(text),
            Some(Turn::Calls(_)) | None => Turn::say("done"),
        });
        (format!("call_{route}_{turn}"), filled(next, &conversation.results))
    }
}

/// A turn in whose raw calls `{{agent_id}}` is the last ID that a tool returned, and `{{agent_id:0}}` the first: a
/// model knows it only then.
fn filled(turn: Turn, results: &[ToolResult]) -> Turn {
    let (mut told, mut last): (Vec<String>, Option<String>) = (Vec::new(), None);
    for text in results.iter().map(|result| &result.text) {
        for after in text.split("agent_id").skip(1) {
            let after = after.trim_start_matches(['\\', '"', ':', ' ']);
            let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
            let id = after.get(..end.unwrap_or(after.len())).unwrap_or_default().to_owned();
            if !told.contains(&id) {
                told.push(id.clone());
            }
            last = Some(id);
        }
    }
    let (Turn::Calls(calls), Some(last)) = (&turn, last) else { return turn };
    let calls = calls.iter().map(|call| match call {
        Call::Raw { name, input } => {
            let mut text = input.to_string().replace("{{agent_id}}", &last);
            for (number, id) in told.iter().enumerate() {
                text = text.replace(&format!("{{{{agent_id:{number}}}}}"), id);
            }
            let input = serde_json::from_str(&text).expect("JSON");
            Call::Raw { name: name.clone(), input }
        }
        other => other.clone(),
    });
    Turn::Calls(calls.collect())
}

/// The result of a requested tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call: `call_<script>_<turn>_<place in the turn>`, all counted from 0.
    pub call: String,
    /// The whole prompt.
    pub text: String,
}

/// A request that was sent to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body; null if there was none, or none that could be read.
    pub body: Value,
    /// The digest of the received body.
    pub sha256: String,
    /// The status that it was answered with.
    pub status: u16,
}

/// The parts of a request that a wire format parses.
struct Conversation {
    /// The user's text before the model's first turn.
    user: String,
    /// How many turns the model has had: rounds of tools that were answered, and texts.
    turn: usize,
    /// Whether the model could ask for a tool at all.
    offers_tools: bool,
    /// The results of tools.
    results: Vec<ToolResult>,
}

/// The wire formats.
#[derive(Debug, Clone, Copy)]
enum Wire {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Wire {
    fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        [
            ("/v1/messages", Self::Anthropic),
            (":streamRawPredict", Self::Anthropic),
            (amazon::STREAM, Self::Anthropic),
            ("/responses", Self::Responses),
            ("/chat/completions", Self::Chat),
            (":streamGenerateContent", Self::Gemini),
        ]
        .into_iter()
        .find_map(|(end, wire)| path.ends_with(end).then_some(wire))
    }

    fn read(self, body: &Value) -> Conversation {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(body),
        }
    }

    fn say(self, name: &str, turn: &Turn, body: &Value) -> String {
        match self {
            Self::Anthropic => anthropic::say(name, turn, body),
            Self::Responses => responses::say(name, turn, body),
            Self::Chat => chat::say(name, turn, body),
            Self::Gemini => gemini::say(name, turn, body),
        }
    }

    /// Removes the end marker of a response.
    fn cut(self, said: &mut String) {
        let last = match self {
            Self::Anthropic => "event: message_delta",
            Self::Responses => "event: response.completed",
            Self::Chat => "\"finish_reason\":\"",
            Self::Gemini => {
                *said = said.replace("\"finishReason\":\"STOP\"", "\"finishReason\":null");
                return;
            }
        };
        let place = said.find(last).expect("an answer that is done");
        let before = said.get(..place).and_then(|before| before.rfind("\n\n"));
        let event = before.map_or(0, |end| end + 2);
        said.truncate(event);
    }
}

/// A scripted model that listens on a free port until it is dropped.
pub struct ScriptedModel {
    server: Server,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl ScriptedModel {
    /// Starts to listen.
    pub fn start(script: Script) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        let broken = AtomicBool::new(false);
        let server = Server::start(move |incoming| {
            let body = serde_json::from_slice(&incoming.body).unwrap_or(Value::Null);
            let answer = match Wire::of(&incoming.path) {
                Some(wire) if incoming.method == "POST" && body.is_object() => {
                    let (mut name, turn) = script.next(&wire.read(&body));
                    let breaks = script.breaks(&name) && !broken.swap(true, Ordering::SeqCst);
                    if breaks {
                        name = name.replacen("call", "broken", 1);
                    }
                    let mut said = wire.say(&name, &turn, &body);
                    if breaks {
                        wire.cut(&mut said);
                    }
                    let (kind, body) = match incoming.path.ends_with(amazon::STREAM) {
                        true => (amazon::KIND, amazon::framed(&said)),
                        false => ("text/event-stream", said.into_bytes()),
                    };
                    Answer { status: 200, kind, body, breaks }
                }
                Some(_) | None => {
                    Answer { status: 404, kind: "text/plain", body: Vec::new(), breaks: false }
                }
            };
            let http::Incoming { method, path, headers, body: bytes } = incoming;
            let sha256 = amazon::digest(&bytes);
            let status = answer.status;
            let request = Request { method, path, headers, body, sha256, status };
            record.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            answer
        });
        Self { server, seen }
    }

    /// Its base URL: `http://127.0.0.1:<port>`, without a path.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Every request so far, in the order in which they were answered.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The results of tools so far, each once.
    pub fn results(&self) -> Vec<ToolResult> {
        let mut results: Vec<ToolResult> = Vec::new();
        for request in self.requests() {
            let Some(wire) = Wire::of(&request.path) else { continue };
            for result in wire.read(&request.body).results {
                if !results.contains(&result) {
                    results.push(result);
                }
            }
        }
        results
    }

    /// The result of one call, such as `call_0_1_0`.
    #[track_caller]
    pub fn result(&self, call: &str) -> String {
        let results = self.results();
        let found = results.iter().find(|result| result.call == call);
        let found = found.unwrap_or_else(|| panic!("{call} was not answered: {results:#?}"));
        found.text.clone()
    }
}

/// The fields of a list that hold this value under this key.
fn with<'a>(list: &'a Value, key: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> {
    items(list).filter(move |item| item[key] == value)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// All the text in a value: a string, the text of a part, the parts of a list.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => match fields.get("text") {
            Some(text) => text_of(text),
            None => fields.values().map(text_of).collect::<Vec<_>>().join("\n"),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The number of turns with these calls: all of a turn have one name, except for the place, and except for those of
/// a cut-off response.
fn rounds(results: &[ToolResult]) -> usize {
    let names = results.iter().filter_map(|result| result.call.rsplit_once('_'));
    let whole = |(name, _): (&str, &str)| name.replacen("broken", "call", 1);
    names.map(whole).collect::<BTreeSet<_>>().len()
}

/// A server-sent event; without a name it is data alone.
fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n")
}

/// The name, the input and the id of each call of a turn, as `names` has them.
fn calls(
    name: &str,
    turn: &Turn,
    names: impl Fn(&Call) -> (String, Value),
) -> Vec<(String, String, Value)> {
    let Turn::Calls(calls) = turn else { return Vec::new() };
    let one = |(place, call)| {
        let (tool, input) = names(call);
        (format!("{name}_{place}"), tool, input)
    };
    calls.iter().enumerate().map(one).collect()
}
