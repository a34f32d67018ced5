//! Reads the lines of `codex exec --json`. Denied calls and what sub-agents do are not in them.

use std::path::Path;

use bailiwick_model::event::{EventKind, FileChange};
use serde_json::{Value, json};

use super::super::adapter::{ParsedEvent, Reader, Verdict};
use super::super::lines::{
    Calls, ClosedCall, all_text, entries, error_words, object, other, text, verdict,
};

/// Reads its lines.
pub(in super::super) struct CodexReader {
    calls: Calls,
    turns: u64,
    done: bool,
    words: String,
}

impl CodexReader {
    pub(in super::super) fn new(worktree: &Path) -> Self {
        Self { calls: Calls::new(worktree), turns: 0, done: false, words: String::new() }
    }

    fn kinds(&mut self, line: &Value) -> Vec<EventKind> {
        match text(line, "/type").as_str() {
            "thread.started" => {
                vec![EventKind::Session { id: text(line, "/thread_id"), model: None }]
            }
            "turn.started" => {
                self.turns += 1;
                vec![EventKind::Turn { turn: self.turns }]
            }
            "turn.completed" => {
                self.done = true;
                Vec::new()
            }
            "turn.failed" => self.failed(text(line, "/error/message")),
            "error" => self.failed(text(line, "/message")),
            kind @ ("item.started" | "item.completed") => match line.get("item") {
                Some(item) => self.item(item, kind == "item.completed"),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn failed(&mut self, message: String) -> Vec<EventKind> {
        let message = error_words(&message);
        self.done = false;
        let known = self.words == message;
        self.words.clone_from(&message);
        if known { Vec::new() } else { vec![EventKind::Error { message }] }
    }

    fn item(&mut self, item: &Value, completed: bool) -> Vec<EventKind> {
        match (text(item, "/type").as_str(), completed) {
            ("agent_message", true) => {
                self.words = text(item, "/text");
                vec![EventKind::Text { text: self.words.clone() }]
            }
            ("reasoning", true) => vec![EventKind::Thinking { text: text(item, "/text") }],
            ("error", true) => vec![EventKind::Error { message: text(item, "/message") }],
            ("command_execution", false) => {
                let input = json!({"command": own_words(&text(item, "/command"))});
                vec![self.calls.begin(&text(item, "/id"), "exec_command", &input)]
            }
            ("command_execution", true) => {
                let exit = item.get("exit_code").and_then(Value::as_i64);
                let exit = exit.and_then(|code| i32::try_from(code).ok());
                self.ended(item, text(item, "/aggregated_output"), exit)
            }
            ("file_change", false) => {
                let changes = item.get("changes").cloned().unwrap_or_default();
                vec![self.calls.begin(
                    &text(item, "/id"),
                    "apply_patch",
                    &json!({"changes": changes}),
                )]
            }
            ("file_change", true) => self.changed(item),
            ("mcp_tool_call", false) => {
                let tool = format!("mcp__{}__{}", text(item, "/server"), text(item, "/tool"));
                let input = item.get("arguments").cloned().unwrap_or_default();
                vec![self.calls.begin(&text(item, "/id"), &tool, &input)]
            }
            ("mcp_tool_call", true) => {
                let output =
                    item.pointer("/result/content").or_else(|| item.pointer("/error/message"));
                self.ended(item, output.map(all_text).unwrap_or_default(), None)
            }
            ("collab_tool_call", true) => agents(item),
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, item: &Value, output: String, exit: Option<i32>) -> Vec<EventKind> {
        let ok = text(item, "/status") == "completed";
        self.calls.end(ClosedCall { id: &text(item, "/id"), ok, output, exit, added: false })
    }

    fn changed(&mut self, item: &Value) -> Vec<EventKind> {
        let mut kinds = self.ended(item, String::new(), None);
        if text(item, "/status") == "completed" {
            for change in entries(item, "/changes") {
                let kind = match text(change, "/kind").as_str() {
                    "add" => FileChange::Added,
                    "delete" => FileChange::Removed,
                    _ => FileChange::Changed,
                };
                kinds.push(self.calls.changed(&text(change, "/path"), kind));
            }
        }
        kinds
    }
}

/// A command without the shell that it puts before it: all of it is quoted for a shell once more.
fn own_words(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_default();
    match words.as_slice() {
        [_, flag, own] if matches!(flag.as_str(), "-lc" | "-c") => own.clone(),
        _ => command.to_owned(),
    }
}

/// Agents that were begun, or have been waited for.
fn agents(item: &Value) -> Vec<EventKind> {
    let begun =
        entries(item, "/receiver_thread_ids").filter(|_| text(item, "/tool") == "spawn_agent");
    let begun = begun.map(|id| EventKind::SubAgent {
        id: all_text(id),
        text: text(item, "/prompt"),
        ended: false,
    });
    let states = item.get("agents_states").and_then(Value::as_object).into_iter().flatten();
    let ended = states.filter(|(_, state)| text(state, "/status") == "completed");
    let ended = ended.map(|(id, state)| EventKind::SubAgent {
        id: id.clone(),
        text: text(state, "/message"),
        ended: true,
    });
    begun.chain(ended).collect()
}

impl Reader for CodexReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        let Some(line) = object(line) else { return other() };
        let kinds = self.kinds(&line);
        if kinds.is_empty() { other() } else { kinds.into_iter().map(ParsedEvent::of).collect() }
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(self.done, &self.words, code, errors)
    }
}

#[cfg(test)]
mod tests {
    use super::own_words;

    #[test]
    fn command_is_unquoted_to_the_models_text() {
        for command in ["ls", "echo 'a b' \"c\"", "it's", "a\nb \\ $HOME `x`", "", "ünï 🦀"] {
            for flag in ["-lc", "-c"] {
                let shown = shlex::try_join(["/bin/bash", flag, command]).unwrap();
                assert_eq!(own_words(&shown), command, "{shown}");
            }
        }
        assert_eq!(own_words("git status"), "git status");
    }
}
