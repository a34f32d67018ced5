//! A scripted agent: it needs no model, and is gated like the others.

mod perform;

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::supervision::{CliBehaviour, IncompleteCalls};
use bailiwick_model::event::EventKind;
use bailiwick_model::task::Login;
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, Assignment, Capabilities, Input, LoginNeeds, ParsedEvent, PlanError, ProgramLaunch,
    Reader, Verdict,
};
use super::gate_setup::{environment, gate_argv_with_timeout};
use super::lines::{other, verdict};
use crate::proxy::ModelApi;

pub use perform::perform;

const NAME: &str = "script";

/// The scripted agent, which is `bailiwick` itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Script;

impl Adapter for Script {
    fn name(&self) -> &str {
        NAME
    }

    fn program(&self) -> &str {
        "bailiwick"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Claude)
    }

    fn model_api(&self) -> Option<ModelApi> {
        None
    }

    fn behaviour(&self) -> CliBehaviour {
        CliBehaviour {
            hooks_have_call_ids: true,
            tools_without_hook: &[],
            own_refusal_prefixes: &[],
            denial_marker: "",
            truncates_old_results: true,
            unfinished: IncompleteCalls::Runs,
            reports_commands: false,
            code_mode: None,
        }
    }

    fn capabilities(&self, _version: &str, _help: &str) -> Capabilities {
        Capabilities::default()
    }

    fn login(&self, _login: Login) -> Result<LoginNeeds, PlanError> {
        Ok(LoginNeeds::default())
    }

    fn conversations(&self) -> Vec<String> {
        Vec::new()
    }

    /// `bailiwick script-agent [-- GATE…]`, with the steps as JSON on standard input.
    fn plan(&self, assignment: &Assignment) -> Result<ProgramLaunch, PlanError> {
        if assignment.script.is_empty() {
            let why = "the task has none; write [[agent.script]] and what it does";
            return Err(PlanError::new(NAME, "play a script", why));
        }
        let steps = serde_json::to_string(&assignment.script)
            .map_err(|error| PlanError::new(NAME, "play the script", error.to_string()))?;
        let mut arguments = vec!["script-agent".to_owned()];
        if let Some(gate) = &assignment.gate {
            arguments.push("--".to_owned());
            arguments.extend(gate_argv_with_timeout(gate, Dialect::Claude, &[]));
        }
        let environment = environment(NAME, Vec::new(), assignment)?;
        Ok(ProgramLaunch {
            arguments,
            environment,
            files: BTreeMap::new(),
            fixed: Vec::new(),
            open: Vec::new(),
            input: Input::Text(steps),
        })
    }

    fn reader(&self, _worktree: &Path) -> Box<dyn Reader> {
        Box::new(ScriptReader { words: String::new() })
    }

    fn shell_call(&self, command: &str) -> (String, Value) {
        ("Bash".to_owned(), json!({"command": command}))
    }
}

/// Reads back what [`perform`] prints: our own events.
struct ScriptReader {
    words: String,
}

impl Reader for ScriptReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        match serde_json::from_str::<EventKind>(line) {
            Ok(what) if is_reportable(&what) => {
                if let EventKind::Text { text } | EventKind::Error { message: text } = &what {
                    self.words.clone_from(text);
                }
                vec![ParsedEvent::of(what)]
            }
            Ok(_) | Err(_) => other(),
        }
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(code == Some(0), &self.words, code, errors)
    }
}

/// A CLI cannot report what the gate, the proxy and the supervisor see.
fn is_reportable(what: &EventKind) -> bool {
    match what {
        EventKind::Session { .. }
        | EventKind::Turn { .. }
        | EventKind::Text { .. }
        | EventKind::ToolCall { .. }
        | EventKind::ToolResult { .. }
        | EventKind::FileChange { .. }
        | EventKind::Command { .. }
        | EventKind::Error { .. } => true,
        EventKind::Announced
        | EventKind::Phase { .. }
        | EventKind::Thinking { .. }
        | EventKind::Decision { .. }
        | EventKind::Warning { .. }
        | EventKind::Notification { .. }
        | EventKind::Check { .. }
        | EventKind::Mcp { .. }
        | EventKind::SubAgent { .. }
        | EventKind::Usage(_)
        | EventKind::Approval { .. }
        | EventKind::Limit { .. }
        | EventKind::Message { .. }
        | EventKind::Ended { .. }
        | EventKind::Other => false,
    }
}
