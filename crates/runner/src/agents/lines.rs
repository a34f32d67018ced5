//! Shared by all readers: JSON lines, their fields, and open calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_model::event::{EventKind, FileChange};
use bailiwick_policy::tool::{Class, Tool};
use serde_json::Value;

use super::adapter::{ParsedEvent, Verdict};

/// A line that is a JSON object; anything else is not understood.
pub(super) fn object(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().filter(Value::is_object)
}

/// The event for a line that is not understood.
pub(super) fn other() -> Vec<ParsedEvent> {
    vec![ParsedEvent::of(EventKind::Other)]
}

/// A field's text; empty if there is none.
pub(super) fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The entries of a list; none if it is not a list.
pub(super) fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// All the text in a value: a text, or the parts of a list.
pub(super) fn all_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(all_text).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.get("text").map(all_text).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The message in an error that is a response of the model as JSON.
pub(super) fn error_words(message: &str) -> String {
    let answer = message.find('{').zip(message.rfind('}'));
    let answer = answer.and_then(|(start, end)| message.get(start..=end)).and_then(object);
    let own_message = answer.map(|answer| text(&answer, "/error/message")).unwrap_or_default();
    if own_message.is_empty() { message.to_owned() } else { own_message }
}

/// A tool call that has begun.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) tool: String,
    pub(super) input: Value,
}

/// Calls that have begun, and the worktree that their files are in.
#[derive(Debug)]
pub(super) struct Calls {
    worktree: PathBuf,
    open: BTreeMap<String, OpenCall>,
}

/// How a call ended.
pub(super) struct ClosedCall<'a> {
    pub(super) id: &'a str,
    pub(super) ok: bool,
    pub(super) output: String,
    pub(super) exit: Option<i32>,
    /// Whether a written file is new, if that is reported.
    pub(super) added: bool,
}

impl Calls {
    pub(super) fn new(worktree: &Path) -> Self {
        Self { worktree: worktree.to_owned(), open: BTreeMap::new() }
    }

    /// A call begins.
    pub(super) fn begin(&mut self, id: &str, tool: &str, input: &Value) -> EventKind {
        let open = OpenCall { tool: tool.to_owned(), input: input.clone() };
        self.open.insert(id.to_owned(), open);
        EventKind::ToolCall { id: id.to_owned(), tool: tool.to_owned(), input: input.clone() }
    }

    /// A call ends: its result, and what that means for commands, files, servers and agents.
    pub(super) fn end(&mut self, closed: ClosedCall<'_>) -> Vec<EventKind> {
        let ClosedCall { id, ok, output, exit, added } = closed;
        let result = EventKind::ToolResult { id: id.to_owned(), ok, output: output.clone() };
        let Some(open) = self.open.remove(id) else { return vec![result] };
        let mut kinds = vec![result];
        if let Some((server, tool)) = of_server(&open.tool) {
            kinds.push(EventKind::Mcp { server: server.to_owned(), tool: tool.to_owned(), ok });
        }
        let known = Tool::named(&open.tool);
        match known.map(|tool| tool.class) {
            Some(Class::Shell) if ok || exit.is_some() => {
                kinds.push(EventKind::Command { command: text(&open.input, "/command"), exit });
            }
            Some(Class::Writes) if ok => {
                let change = if added { FileChange::Added } else { FileChange::Changed };
                kinds.extend(written(&open.input).map(|path| self.changed(&path, change)));
            }
            Some(Class::Other) if known.is_some_and(|tool| tool.name == "Agent") => {
                kinds.push(EventKind::SubAgent { id: id.to_owned(), text: output, ended: true });
            }
            _ => {}
        }
        kinds
    }

    /// A file of the worktree changed; its path becomes relative to the root.
    pub(super) fn changed(&self, path: &str, change: FileChange) -> EventKind {
        let whole = Path::new(path);
        let path = whole.strip_prefix(&self.worktree).unwrap_or(whole).display().to_string();
        EventKind::FileChange { path, change }
    }
}

/// The file that a call writes.
fn written(input: &Value) -> Option<String> {
    let keys = ["file_path", "filePath", "notebook_path"];
    keys.iter().find_map(|key| input.get(key)?.as_str()).map(str::to_owned)
}

/// `mcp__server__tool`, or Gemini's `mcp_server_tool`.
fn of_server(tool: &str) -> Option<(&str, &str)> {
    match tool.strip_prefix("mcp__") {
        Some(rest) => rest.split_once("__"),
        None => tool.strip_prefix("mcp_")?.split_once('_'),
    }
}

/// Whether this tool starts a sub-agent.
pub(super) fn is_agent(tool: &str) -> bool {
    Tool::named(tool).is_some_and(|tool| tool.name == "Agent")
}

/// The verdict of a CLI with this final message and exit code.
pub(super) fn verdict(is_done: bool, words: &str, code: Option<i32>, errors: &str) -> Verdict {
    let completed = is_done && code == Some(0);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words = match (words.trim().is_empty(), completed, code) {
        (false, _, _) => words.trim().to_owned(),
        (true, true, _) => String::new(),
        (true, false, _) if !last.is_empty() => last.trim().to_owned(),
        (true, false, Some(code)) => format!("it ended with exit code {code} and no word"),
        (true, false, None) => "it was ended by a signal".to_owned(),
    };
    Verdict { completed, words }
}
