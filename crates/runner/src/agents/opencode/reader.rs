//! Reads OpenCode's `--format json`. Only calls that have ended are in it, and none of sub-agents'.

use std::path::Path;

use bailiwick_model::event::EventKind;
use serde_json::Value;

use super::super::adapter::{ParsedEvent, Reader, Verdict};
use super::super::lines::{Calls, ClosedCall, is_agent, object, other, text, verdict};

/// Reads its lines.
pub(in super::super) struct OpenCodeReader {
    calls: Calls,
    session: String,
    turns: u64,
    done: bool,
    words: String,
}

impl OpenCodeReader {
    pub(in super::super) fn new(worktree: &Path) -> Self {
        let calls = Calls::new(worktree);
        Self { calls, session: String::new(), turns: 0, done: false, words: String::new() }
    }

    fn kinds(&mut self, line: &Value) -> Vec<EventKind> {
        let part = line.get("part").unwrap_or(&Value::Null);
        match text(line, "/type").as_str() {
            "step_start" => {
                self.turns += 1;
                self.done = false;
                vec![EventKind::Turn { turn: self.turns }]
            }
            "text" => {
                self.words = text(part, "/text");
                vec![EventKind::Text { text: self.words.clone() }]
            }
            "reasoning" => vec![EventKind::Thinking { text: text(part, "/text") }],
            "tool_use" => self.tool(part),
            "step_finish" => {
                self.done = text(part, "/reason") == "stop";
                Vec::new()
            }
            "error" => {
                let messages = [text(line, "/error/data/message"), text(line, "/error/name")];
                self.words =
                    messages.into_iter().find(|message| !message.is_empty()).unwrap_or_default();
                self.done = false;
                vec![EventKind::Error { message: self.words.clone() }]
            }
            _ => Vec::new(),
        }
    }

    fn tool(&mut self, part: &Value) -> Vec<EventKind> {
        let (id, tool) = (text(part, "/callID"), text(part, "/tool"));
        let input = part.pointer("/state/input").cloned().unwrap_or_default();
        let mut kinds = vec![self.calls.begin(&id, &tool, &input)];
        if is_agent(&tool) {
            let text = text(&input, "/prompt");
            kinds.push(EventKind::SubAgent { id: id.clone(), text, ended: false });
        }
        let ok = text(part, "/state/status") == "completed";
        let output = text(part, if ok { "/state/output" } else { "/state/error" });
        let exit = part.pointer("/state/metadata/exit").and_then(Value::as_i64);
        let exit = exit.and_then(|code| i32::try_from(code).ok());
        let added = part.pointer("/state/metadata/exists").and_then(Value::as_bool) == Some(false);
        kinds.extend(self.calls.end(ClosedCall { id: &id, ok, output, exit, added }));
        kinds
    }
}

impl Reader for OpenCodeReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        let Some(line) = object(line) else { return other() };
        let mut kinds = Vec::new();
        let session = text(&line, "/sessionID");
        if self.session.is_empty() && !session.is_empty() {
            self.session.clone_from(&session);
            kinds.push(EventKind::Session { id: session, model: None });
        }
        kinds.extend(self.kinds(&line));
        if kinds.is_empty() { other() } else { kinds.into_iter().map(ParsedEvent::of).collect() }
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(self.done, &self.words, code, errors)
    }
}
