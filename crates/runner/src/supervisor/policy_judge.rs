//! Judging the calls of a run: from outside of its sandbox, by its policy.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bailiwick_gate::{HostContext, HostError, LogError, append, evaluate_call};
use bailiwick_lifecycle::delegation::consent::{CallText, input_preview};
use bailiwick_lifecycle::ports::{CallPolicy, DecidedCall};
use bailiwick_lifecycle::supervision::Redaction;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::protocol::GateRequest;
use bailiwick_policy::record::{Record, RecordedCall};
use bailiwick_policy::tool_lists::own;
use bailiwick_policy::{Decision, Policy};
use serde_json::Value;
use thiserror::Error;

/// Decides by one policy, and records every decision with its facts.
pub struct PolicyJudge {
    /// The policy.
    pub policy: Policy,
    /// Its digest.
    pub digest: String,
    /// The agent's worktree.
    pub worktree: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
    /// What enforces the limits on paths.
    pub enforcement: Enforcement,
    /// Names of its MCP servers.
    pub servers: Vec<String>,
    /// What must not appear in the log.
    pub redaction: Redaction,
    /// The file with the decisions; one writer at a time.
    pub log: Mutex<PathBuf>,
}

impl CallPolicy for PolicyJudge {
    fn decide(&self, question: &GateRequest) -> DecidedCall {
        match self.decided(question) {
            Ok(decided_call) => decided_call,
            Err(error) => {
                let why = error.to_string();
                DecidedCall {
                    call: RecordedCall::unreadable(&why),
                    decision: Decision::undecidable(why),
                    input: Value::Null,
                    own_tool_text: None,
                    input_preview: String::new(),
                }
            }
        }
    }
}

/// Why a call cannot be decided.
#[derive(Debug, Error)]
enum NotDecided {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("the log of decisions is lost")]
    LogLost,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the decision cannot be logged: {0}")]
    Record(#[from] serde_json::Error),
}

impl PolicyJudge {
    fn decided(&self, question: &GateRequest) -> Result<DecidedCall, NotDecided> {
        let directory = match question.directory.as_str() {
            "" => self.worktree.as_path(),
            named => Path::new(named),
        };
        let surroundings = HostContext::at(&self.worktree, directory)?
            .with_home(&self.home)
            .with_enforcement(self.enforcement);
        let payload = question.payload.as_bytes();
        let dialect = (question.dialect, self.servers.as_slice());
        let mut record = evaluate_call(&self.policy, &self.digest, dialect, payload, &surroundings);
        record.call.command = record.call.command.map(|command| self.redaction.clean(&command));
        // Commands, paths and the reasons that quote them can all contain a secret.
        let logged: Record =
            serde_json::from_value(self.redaction.clean_json(serde_json::to_value(&record)?))?;
        let log = self.log.lock().map_err(|_| NotDecided::LogLost)?;
        append(&log, &logged)?;
        drop(log);
        let value: Value = serde_json::from_str(&question.payload).unwrap_or_default();
        let input = ["tool_input", "args"].iter().find_map(|key| value.get(key));
        let input = input.cloned().unwrap_or_default();
        let ours = record.call.tools.iter().any(|tool| own(tool).is_some());
        let clean = |text: &str| self.redaction.clean(text);
        let own_call = ours.then(|| CallText::of(&input, clean));
        let input_preview = match (&own_call, &record.call.command) {
            (Some(whole), _) if !whole.is_cut => whole.text.clone(),
            (None, Some(_)) => String::new(),
            (Some(_) | None, _) => input_preview(&input, clean),
        };
        Ok(DecidedCall {
            decision: record.decision,
            call: record.call,
            input,
            own_tool_text: own_call.map(|call| call.text),
            input_preview,
        })
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_policy::decision::Outcome;
    use bailiwick_policy::dialects::Dialect;
    use bailiwick_policy::protocol::VERSION;
    use bailiwick_testkit::Scratch;
    use serde_json::json;

    use super::*;

    /// The person sees what they approve, for any tool.
    #[test]
    fn input_of_a_call_is_shown_without_secrets() {
        let scratch = Scratch::repository();
        let policy = json!({
            "format": 1, "role": "test", "tools": ["Bash", "Write", "WebFetch", "mcp__docs__*"],
            "approval": ["Bash", "Write", "WebFetch", "mcp__docs__*"], "rules": [],
            "whitelist": ["src/**"], "escalation": "ask-via-return",
        });
        let judge = PolicyJudge {
            policy: Policy::parse(policy.to_string().as_bytes()).unwrap(),
            digest: String::new(),
            worktree: scratch.root(),
            home: scratch.root(),
            enforcement: Enforcement::TextOnly,
            servers: vec!["docs".to_owned()],
            redaction: Redaction::new(["quite-own-value".to_owned()]),
            log: Mutex::new(scratch.place().join("decisions")),
        };
        let file = scratch.root().join("src/a.rs").display().to_string();
        for (tool, input, expected) in [
            (
                "mcp__docs__post",
                json!({"page": "x", "text": "It is quite-own-value."}),
                "page=\"x\" text=\"It is [secret].\"",
            ),
            ("WebFetch", json!({"url": "https://a.example/?q=1", "prompt": "Read."}), "?q=1"),
            ("Write", json!({"file_path": file, "content": "fn main() {}"}), "fn main() {}"),
            ("Bash", json!({"command": "ls"}), ""),
        ] {
            let payload = json!({
                "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
                "cwd": scratch.root(),
            });
            let judged = judge.decide(&GateRequest {
                version: VERSION,
                dialect: Dialect::Claude,
                directory: String::new(),
                payload: payload.to_string(),
                announces: false,
            });
            assert_eq!(judged.decision.outcome, Outcome::Ask, "{tool}: {judged:?}");
            assert!(judged.input_preview.contains(expected), "{tool}: {}", judged.input_preview);
            assert_eq!(
                (judged.input_preview.is_empty(), judged.own_tool_text),
                (expected.is_empty(), None)
            );
        }
    }

    /// Reasons quote the call; the agent gets its own text back.
    #[test]
    fn decision_log_contains_no_secret() {
        let scratch = Scratch::repository();
        let policy = json!({
            "format": 1, "role": "test", "tools": ["Write"], "approval": [],
            "rules": [{"capability": "scope::files-whitelist", "gate": "gates::scope_files_whitelist", "tools": ["*"],
                "severity": "block"}],
            "whitelist": ["src/**"], "escalation": "ask-via-return",
        });
        let log = scratch.place().join("decisions");
        let judge = PolicyJudge {
            policy: Policy::parse(policy.to_string().as_bytes()).unwrap(),
            digest: String::new(),
            worktree: scratch.root(),
            home: scratch.root(),
            enforcement: Enforcement::TextOnly,
            servers: Vec::new(),
            redaction: Redaction::new(["quite-own-value".to_owned()]),
            log: Mutex::new(log.clone()),
        };
        for name in ["other/plain-name", "other/quite-own-value"] {
            let payload = json!({
                "hook_event_name": "PreToolUse", "tool_name": "Write", "cwd": scratch.root(),
                "tool_input": {"file_path": scratch.root().join(name), "content": "x"},
            });
            let judged = judge.decide(&GateRequest {
                version: VERSION,
                dialect: Dialect::Claude,
                directory: String::new(),
                payload: payload.to_string(),
                announces: false,
            });
            assert_eq!(judged.decision.outcome, Outcome::Deny, "{judged:?}");
        }
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("plain-name"), "the control: reasons name the file: {log}");
        assert!(!log.contains("quite-own-value"), "{log}");
    }
}
