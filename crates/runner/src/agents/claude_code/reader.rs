//! Reads Claude Code's `stream-json`.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_model::event::EventKind;
use serde_json::Value;

use super::super::adapter::{ParsedEvent, Reader, Verdict};
use super::super::lines::{
    Calls, ClosedCall, all_text, entries, is_agent, object, other, text, verdict,
};

/// Reads its lines.
pub(in super::super) struct ClaudeReader {
    calls: Calls,
    /// The last message of each agent, and how many it has given.
    turns: BTreeMap<Option<String>, (String, u64)>,
    done: bool,
    words: String,
}

impl ClaudeReader {
    pub(in super::super) fn new(worktree: &Path) -> Self {
        let calls = Calls::new(worktree);
        Self { calls, turns: BTreeMap::new(), done: false, words: String::new() }
    }

    fn kinds(&mut self, line: &Value) -> Vec<EventKind> {
        match (text(line, "/type").as_str(), text(line, "/subtype").as_str()) {
            ("system", "init") => {
                let model = Some(text(line, "/model")).filter(|model| !model.is_empty());
                vec![EventKind::Session { id: text(line, "/session_id"), model }]
            }
            ("system", "api_retry") => {
                let attempt = line.pointer("/attempt").and_then(Value::as_u64).unwrap_or_default();
                let status = line.pointer("/error_status").and_then(Value::as_u64);
                vec![EventKind::Error { message: retried(status, attempt) }]
            }
            ("assistant", _) => self.assistant_message(line),
            ("user", _) => self.tool_results(line),
            ("result", kind) => self.result(line, kind),
            _ => Vec::new(),
        }
    }

    fn assistant_message(&mut self, line: &Value) -> Vec<EventKind> {
        let mut kinds = Vec::new();
        let message = text(line, "/message/id");
        let last = self.turns.entry(agent(line)).or_default();
        if last.0 != message || last.1 == 0 {
            *last = (message, last.1 + 1);
            kinds.push(EventKind::Turn { turn: last.1 });
        }
        for part in entries(line, "/message/content") {
            match text(part, "/type").as_str() {
                "text" => kinds.push(EventKind::Text { text: text(part, "/text") }),
                "thinking" => kinds.push(EventKind::Thinking { text: text(part, "/thinking") }),
                "tool_use" => {
                    let (id, tool) = (text(part, "/id"), text(part, "/name"));
                    let input = part.get("input").cloned().unwrap_or_default();
                    kinds.push(self.calls.begin(&id, &tool, &input));
                    if is_agent(&tool) {
                        kinds.push(EventKind::SubAgent {
                            id,
                            text: text(&input, "/prompt"),
                            ended: false,
                        });
                    }
                }
                _ => {}
            }
        }
        kinds
    }

    fn tool_results(&mut self, line: &Value) -> Vec<EventKind> {
        let results =
            entries(line, "/message/content").filter(|part| text(part, "/type") == "tool_result");
        let mut kinds = Vec::new();
        for part in results {
            let ok = part.get("is_error").and_then(Value::as_bool) != Some(true);
            let output = part.get("content").map(all_text).unwrap_or_default();
            let exit = match ok {
                true => Some(0),
                false => output
                    .strip_prefix("Exit code ")
                    .and_then(|rest| rest.lines().next().and_then(|code| code.trim().parse().ok())),
            };
            let added = text(line, "/tool_use_result/type") == "create";
            let id = text(part, "/tool_use_id");
            kinds.extend(self.calls.end(ClosedCall { id: &id, ok, output, exit, added }));
        }
        kinds
    }

    fn result(&mut self, line: &Value, kind: &str) -> Vec<EventKind> {
        let failed = line.get("is_error").and_then(Value::as_bool) != Some(false);
        self.done = kind == "success" && !failed;
        self.words = text(line, "/result");
        if self.words.is_empty() {
            self.words = entries(line, "/errors").map(all_text).collect::<Vec<_>>().join("; ");
        }
        if self.words.is_empty() && !self.done {
            self.words = kind.to_owned();
        }
        match self.done {
            // The final message was recorded already.
            true => Vec::new(),
            false => vec![EventKind::Error { message: self.words.clone() }],
        }
    }
}

/// Why the CLI repeats its request, by the status of the response.
fn retried(status: Option<u64>, attempt: u64) -> String {
    match status {
        Some(status @ (401 | 403)) => {
            format!("the model refused the key (status {status}, attempt {attempt})")
        }
        Some(status) => {
            format!("the model answered with an error (status {status}, attempt {attempt})")
        }
        None => format!("the model did not answer (attempt {attempt})"),
    }
}

/// The call that started the agent which a line is about.
fn agent(line: &Value) -> Option<String> {
    line.get("parent_tool_use_id").and_then(Value::as_str).map(str::to_owned)
}

impl Reader for ClaudeReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        let Some(line) = object(line) else { return other() };
        if text(&line, "/type").starts_with("control_") {
            // Messages of the control protocol: the gate records the results.
            return Vec::new();
        }
        let agent = agent(&line);
        let kinds = self.kinds(&line);
        if kinds.is_empty() {
            return other();
        }
        kinds.into_iter().map(|what| ParsedEvent { agent: agent.clone(), what }).collect()
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(self.done, &self.words, code, errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_key_is_not_reported_as_no_answer() {
        for (status, expected) in [
            ("401", "the model refused the key (status 401, attempt 2)"),
            ("403", "the model refused the key (status 403, attempt 2)"),
            ("529", "the model answered with an error (status 529, attempt 2)"),
            ("null", "the model did not answer (attempt 2)"),
        ] {
            let line = format!(
                "{{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":2,\"error_status\":{status}}}"
            );
            let read = ClaudeReader::new(Path::new("/w")).line(&line);
            let kinds: Vec<EventKind> = read.into_iter().map(|read| read.what).collect();
            assert_eq!(kinds, [EventKind::Error { message: expected.to_owned() }]);
        }
    }
}
