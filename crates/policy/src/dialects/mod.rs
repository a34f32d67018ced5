//! One CLI a file: its payload in, its answer out.

mod apply_patch;
mod claude;
mod codex;
mod fields;
mod gemini;
mod mcp;
mod opencode;

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::decision::{Decision, Outcome};
use bailiwick_model::capability::GateSeverity;

/// The largest payload that is read.
pub const MAX_PAYLOAD_SIZE: usize = 16 * 1024 * 1024;

/// The agent program whose hook payloads are read and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Claude Code.
    Claude,
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode, through our plugin.
    OpenCode,
}

/// How an allowed call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedReply {
    /// In silence, so that the CLI's own permission prompts still work.
    Silent,
    /// In words, where the CLI denies what is not answered.
    Explicit,
}

/// The output and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReply {
    /// 0 lets the call continue; 2 stops it.
    pub exit: u8,
    /// For the CLI.
    pub stdout: String,
    /// For the agent.
    pub stderr: String,
}

/// A payload that cannot be read as a tool call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::OpenCode];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// The dialect of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// Reads a payload. `servers` are the MCP servers of a CLI that does not mark their tools.
    pub fn read(self, payload: &[u8], servers: &[String]) -> Result<Call, Unreadable> {
        if payload.is_empty() {
            return Err(Unreadable::because("the call is empty"));
        }
        if payload.len() > MAX_PAYLOAD_SIZE {
            return Err(Unreadable::because("the call is larger than 16 MiB"));
        }
        let text = std::str::from_utf8(payload)
            .map_err(|_| Unreadable::because("the call is not UTF-8"))?;
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Unreadable::because(format!("the call is not JSON: {error}")))?;
        match self {
            Self::Claude => claude::read(&value),
            Self::Codex => codex::read(&value),
            Self::Gemini => gemini::read(&value),
            Self::OpenCode => opencode::read(&value, servers),
        }
    }

    /// The answer in this CLI's words.
    pub fn answer(self, decision: &Decision, allowing: AllowedReply) -> HookReply {
        let warned = warnings(decision);
        match decision.outcome {
            Outcome::Deny => denied(decision),
            Outcome::Ask => match self {
                Self::Claude => claude::ask(decision),
                // These let a call run that is answered with "ask".
                Self::Codex | Self::Gemini | Self::OpenCode => denied(decision),
            },
            Outcome::Allow => match (self, allowing) {
                (Self::Claude, AllowedReply::Explicit) => claude::allow(warned),
                (Self::Claude, AllowedReply::Silent) => claude::silent(warned),
                (Self::Codex | Self::Gemini | Self::OpenCode, _) => {
                    HookReply { exit: 0, stdout: String::new(), stderr: warned }
                }
            },
        }
    }
}

/// The answer for a CLI that reads only the output of a hook: empty output allows the call.
pub fn stdout_answer(decision: &Decision) -> String {
    match decision.outcome {
        Outcome::Allow => String::new(),
        // Nobody could be asked.
        Outcome::Deny | Outcome::Ask => claude::deny(&denial(decision)),
    }
}

/// Exit 2 with the reason on standard error: the one denial that every CLI honours.
fn denied(decision: &Decision) -> HookReply {
    HookReply { exit: 2, stdout: String::new(), stderr: format!("{}\n", denial(decision)) }
}

/// The reason is never empty: Codex lets a call run that is denied without one.
fn denial(decision: &Decision) -> String {
    let message = decision.message();
    if message.trim().is_empty() { "denied".to_owned() } else { message }
}

fn warnings(decision: &Decision) -> String {
    let warned = decision.warnings.iter().filter(|warning| warning.severity == GateSeverity::Warn);
    warned.map(|warning| format!("warning: {}\n", warning.objection.sentence())).collect()
}
