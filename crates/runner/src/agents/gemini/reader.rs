//! Reads Gemini CLI's `stream-json`. What sub-agents do is not in it.

use std::path::Path;

use bailiwick_model::event::EventKind;
use serde_json::Value;

use super::super::adapter::{ParsedEvent, Reader, Verdict};
use super::super::lines::{Calls, ClosedCall, error_words, is_agent, object, other, text, verdict};

/// Reads its lines.
pub(in super::super) struct GeminiReader {
    calls: Calls,
    turns: u64,
    /// Whether the model is in the middle of an answer.
    answering: bool,
    done: bool,
    words: String,
}

impl GeminiReader {
    pub(in super::super) fn new(worktree: &Path) -> Self {
        let calls = Calls::new(worktree);
        Self { calls, turns: 0, answering: false, done: false, words: String::new() }
    }

    fn kinds(&mut self, line: &Value) -> Vec<EventKind> {
        match text(line, "/type").as_str() {
            "init" => {
                let model = Some(text(line, "/model")).filter(|model| !model.is_empty());
                vec![EventKind::Session { id: text(line, "/session_id"), model }]
            }
            "message" if text(line, "/role") == "assistant" => {
                let fresh = !self.answering;
                let mut kinds = self.answer();
                let piece = text(line, "/content");
                // A response arrives in pieces; the last one counts as the final message.
                if fresh {
                    self.words.clear();
                }
                self.words.push_str(&piece);
                kinds.push(EventKind::Text { text: piece });
                kinds
            }
            "tool_use" => {
                let mut kinds = self.answer();
                let tool = text(line, "/tool_name");
                let id = model_id(&text(line, "/tool_id"), &tool);
                let input = line.get("parameters").cloned().unwrap_or_default();
                kinds.push(self.calls.begin(&id, &tool, &input));
                if is_agent(&tool) {
                    kinds.push(EventKind::SubAgent {
                        id,
                        text: text(&input, "/prompt"),
                        ended: false,
                    });
                }
                kinds
            }
            "tool_result" => self.tool_results(line),
            "error" => vec![EventKind::Error { message: text(line, "/message") }],
            "result" => self.result(line),
            _ => Vec::new(),
        }
    }

    fn answer(&mut self) -> Vec<EventKind> {
        if self.answering {
            return Vec::new();
        }
        self.answering = true;
        self.turns += 1;
        vec![EventKind::Turn { turn: self.turns }]
    }

    fn tool_results(&mut self, line: &Value) -> Vec<EventKind> {
        self.answering = false;
        let whole = text(line, "/tool_id");
        let id = whole.split_once("__").map_or(whole.as_str(), |(_, id)| id);
        let ok = text(line, "/status") == "success";
        let output = text(line, "/output");
        // A failing command is not an error to it, and its exit code is not always reported.
        let exit_text =
            output.lines().find_map(|line| line.strip_prefix("Command exited with code: "));
        let exit = exit_text.and_then(|code| code.trim().parse().ok());
        self.calls.end(ClosedCall { id, ok, output, exit, added: false })
    }

    fn result(&mut self, line: &Value) -> Vec<EventKind> {
        self.done = text(line, "/status") == "success";
        if self.done {
            return Vec::new();
        }
        self.words = error_words(&text(line, "/error/message"));
        vec![EventKind::Error { message: self.words.clone() }]
    }
}

/// The model's name of a call, which it puts the tool's before.
fn model_id(id: &str, tool: &str) -> String {
    let own = id.strip_prefix(tool).and_then(|rest| rest.strip_prefix("__"));
    own.unwrap_or(id).to_owned()
}

impl Reader for GeminiReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        let Some(line) = object(line) else { return other() };
        let kinds = self.kinds(&line);
        if kinds.is_empty() { other() } else { kinds.into_iter().map(ParsedEvent::of).collect() }
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(self.done, &self.words, code, errors)
    }
}
