//! The hook of agents whose shell commands get into the sandbox by a change of their input: Codex and Gemini CLI.
//!
//! ```text
//!  before a call   gate ─▶ the person's own rules ─▶ the command goes to a file, the agent starts that
//!  after a call    did it run what was put in its place?
//! ```
//!
//! Every failure denies the call. A command that ran in another form than ours, such as that of another hook, blocks
//! all later ones until the person has checked.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use bailiwick_gate::{GateError, repository_around};
use bailiwick_policy::call::Action;
use bailiwick_policy::dialects::{Dialect, HookReply};
use serde_json::{Map, Value, json};

use super::agent::Agent;
use super::own_rules::{self, Around};
use super::pending_command::{Commands, Pending};
use super::places::StateFiles;
use super::record::{self, Record, RecordError};
use super::sandboxed_shell;
use crate::failure::Failure;

/// Between our directory and the gate with its arguments.
pub const SEPARATOR: &str = "--";

/// How much of a command is shown beside what is started for it.
const MAX_SHOWN: usize = 16 * 1024;

/// How long to wait for the record of a command that has ended or continues in the background.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// The answer to the agent's program.
enum HookOutcome {
    /// In silence, or with what the gate printed.
    Goes(HookReply),
    /// With a command in the place of another.
    Changed(Value),
    /// Not, because of this.
    Stops(String),
}

/// Answers one call.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let answer = match arguments.as_slice() {
        [directory, separator, gate, words @ ..] if separator == SEPARATOR => {
            match answered(Path::new(directory), gate, words) {
                Ok(HookOutcome::Goes(answer)) => answer,
                Ok(HookOutcome::Changed(value)) => {
                    HookReply { exit: 0, stdout: format!("{value}\n"), stderr: String::new() }
                }
                Ok(HookOutcome::Stops(why)) => denied(&why),
                Err(error) => denied(&error.to_string()),
            }
        }
        // The shell around it then reports that the gate could not run.
        _ => HookReply { exit: 1, stdout: String::new(), stderr: String::new() },
    };
    bailiwick_gate::print(&answer)
}

fn denied(why: &str) -> HookReply {
    HookReply { exit: 2, stdout: String::new(), stderr: format!("bailiwick: {why}\n") }
}

/// Why a call cannot be answered, which denies it.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error("{} cannot be used: {why}", path.display())]
    Record { path: PathBuf, why: RecordError },
    #[error("the call cannot be read: {0}")]
    Call(#[from] serde_json::Error),
    #[error("the command of this call cannot be put into the sandbox")]
    NotWrapped,
    #[error("{}: {error}", path.display())]
    Directory { path: PathBuf, error: io::Error },
    #[error("the command cannot be handed over: {0}")]
    NotHandedOver(io::Error),
    #[error("{0}")]
    Program(Failure),
    #[error("a command ran without the sandbox: {0}")]
    Bypassed(io::Error),
    #[error("the record does not say where the settings are: install again")]
    NoHome,
    #[error("the gate could not run, so the call is denied: {0}")]
    GateNotRun(io::Error),
}

fn answered(directory: &Path, gate: &OsStr, words: &[OsString]) -> Result<HookOutcome, HookError> {
    let kept = StateFiles { directory: directory.to_owned() };
    let payload = bailiwick_gate::read(&mut io::stdin().lock())?;
    let record = std::fs::read_to_string(kept.record())
        .map_err(RecordError::from)
        .and_then(|text| record::parse(&text))
        .map_err(|why| HookError::Record { path: kept.record(), why })?;
    let value: Value = serde_json::from_slice(&payload)?;
    let hook = Hook { kept, record, payload, value };
    match hook.text("hook_event_name").unwrap_or_default() {
        "PostToolUse" | "AfterTool" => hook.after(),
        _ => hook.before(gate, words),
    }
}

struct Hook {
    kept: StateFiles,
    record: Record,
    payload: Vec<u8>,
    value: Value,
}

impl Hook {
    fn text(&self, key: &str) -> Option<&str> {
        self.value.get(key).and_then(Value::as_str)
    }

    fn commands(&self) -> Commands {
        Commands::of(self.kept.commands())
    }

    fn dialect(&self) -> Dialect {
        match self.record.agent {
            Agent::Claude => Dialect::Claude,
            Agent::Codex => Dialect::Codex,
            Agent::Gemini => Dialect::Gemini,
            Agent::OpenCode => Dialect::OpenCode,
        }
    }

    /// The command of a shell call; nothing if it is another one.
    fn command(&self, payload: &[u8]) -> Option<String> {
        match self.dialect().read(payload, &[]).ok()?.action {
            Action::Shell(command) => Some(command),
            Action::TerminalInput
            | Action::Files(_)
            | Action::ShellAndFiles(..)
            | Action::NoKnownEffect => None,
        }
    }

    fn before(&self, gate: &OsStr, words: &[OsString]) -> Result<HookOutcome, HookError> {
        let command = self.command(&self.payload);
        let session = self.text("session_id");
        let verified = session.is_some_and(|session| self.commands().is_verified(session));
        let sandboxed = (verified && command.is_some()).then_some("--sandboxed");
        let answer = ask_gate(gate, words, sandboxed, &self.payload)?;
        let (0, Some(command)) = (answer.exit, command) else {
            return Ok(HookOutcome::Goes(answer));
        };
        if let Some(other) = self.commands().bypassing() {
            return Ok(HookOutcome::Stops(self.bypassed(&other)));
        }
        let none = Map::new();
        let input = self.value.get("tool_input").and_then(Value::as_object).unwrap_or(&none);
        if input.get("command").and_then(Value::as_str) != Some(command.as_str()) {
            return Err(HookError::NotWrapped);
        }
        let around = self.around()?;
        if let Some(found) = own_rules::objection(self.record.agent, &around, &command, input) {
            return Ok(HookOutcome::Stops(found.to_string()));
        }
        let pending = Pending { command: command.clone(), session: session.map(str::to_owned) };
        for directory in [self.kept.scratch(), self.kept.removed()] {
            // Codex's own sandbox opens only what is there.
            std::fs::create_dir_all(&directory)
                .map_err(|error| HookError::Directory { path: directory.clone(), error })?;
        }
        let program = self
            .commands()
            .put(&pending, |id| {
                sandboxed_shell::by_id(&self.kept, &self.record, id)
                    .map_err(|failure| io::Error::other(failure.to_string()))
            })
            .map_err(HookError::NotHandedOver)?;
        let program = super::gate_command::text(&program).map_err(HookError::Program)?;
        Ok(HookOutcome::Changed(self.changed(input, &program, &command)))
    }

    /// The answer that has the agent's program start ours. It must name all of the input.
    fn changed(&self, input: &Map<String, Value>, program: &str, command: &str) -> Value {
        let mut input = input.clone();
        match self.record.agent {
            Agent::Gemini => {
                input.insert("command".to_owned(), program.into());
                // The text for a person who is asked.
                input.insert("description".to_owned(), shown(command).into());
                json!({"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": input}})
            }
            Agent::Claude | Agent::Codex | Agent::OpenCode => {
                let text = format!("{program} # {}", shown(command));
                input.insert("command".to_owned(), text.into());
                json!({"hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "updatedInput": input,
                }})
            }
        }
    }

    fn after(&self) -> Result<HookOutcome, HookError> {
        let mut value = self.value.clone();
        let event = match self.record.agent {
            Agent::Gemini => "BeforeTool",
            Agent::Claude | Agent::Codex | Agent::OpenCode => "PreToolUse",
        };
        if let Some(value) = value.as_object_mut() {
            value.insert("hook_event_name".to_owned(), event.into());
        }
        let goes =
            HookOutcome::Goes(HookReply { exit: 0, stdout: String::new(), stderr: String::new() });
        let Some(text) = self.command(value.to_string().as_bytes()) else { return Ok(goes) };
        let commands = self.commands();
        let Some(id) = commands.id_in(&text) else {
            commands.set_bypassed(&text).map_err(HookError::Bypassed)?;
            return Ok(HookOutcome::Stops(self.bypassed(&text)));
        };
        let end = std::time::Instant::now() + RECORD_TIMEOUT;
        while !commands.has_started(id) {
            if std::time::Instant::now() >= end {
                let why = "the sandbox was not made, so the command did not run; tell the person";
                return Ok(HookOutcome::Stops(why.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(goes)
    }

    fn bypassed(&self, text: &str) -> String {
        format!(
            "a command ran without the sandbox, so no more are allowed: `{}`; the person has to see which other \
             hook of {} changes commands, then install again",
            shown(text),
            self.record.agent.name()
        )
    }

    fn around(&self) -> Result<Around, HookError> {
        let home = self.record.home.clone();
        let home = home.ok_or(HookError::NoHome)?;
        let here = self.text("cwd").map(PathBuf::from).or_else(|| std::env::current_dir().ok());
        let root = self.record.root.clone().or_else(|| here.as_deref().and_then(repository_around));
        let system = match self.record.agent {
            Agent::Gemini => "/etc/gemini-cli",
            Agent::Claude | Agent::Codex | Agent::OpenCode => "/etc/codex",
        };
        Ok(Around { home, root, system: PathBuf::from(system) })
    }
}

/// Asks the gate.
fn ask_gate(
    gate: &OsStr,
    words: &[OsString],
    sandboxed: Option<&str>,
    payload: &[u8],
) -> Result<HookReply, HookError> {
    let mut child = Command::new(gate)
        .args(words)
        .args(sandboxed)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(HookError::GateNotRun)?;
    if let Some(mut input) = child.stdin.take() {
        // One that ends without reading has answered by that.
        let _ = input.write_all(payload);
    }
    let output = child.wait_with_output().map_err(HookError::GateNotRun)?;
    // After a signal or another code, it has not answered: the shell around this reports it.
    let exit = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(HookReply {
        exit,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A command in one line, for people: nothing in it ends a comment of a shell.
fn shown(command: &str) -> String {
    let line: String =
        command.trim().chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_command_is_one_line_of_limited_length() {
        assert_eq!(shown("a\nb\r\n c\u{85}d\n"), "a b   c d");
        assert_eq!(shown(&"x".repeat(MAX_SHOWN + 1)).chars().count(), MAX_SHOWN + 1);
    }
}
