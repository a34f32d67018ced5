//! Plays a script as an agent CLI would: asks the gate before each tool, and continues when denied.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bailiwick_model::event::{EventKind, FileChange};
use bailiwick_model::task::ScriptStep;
use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;
use serde_json::{Value, json};
use thiserror::Error;

/// Plays the steps in `worktree` and returns the exit code. `gate` is the command that decides, with the protocol of
/// Claude Code; without one, every step is allowed. Each event is printed as one line of JSON.
pub fn perform(
    steps: &[ScriptStep],
    gate: Option<&[String]>,
    worktree: &Path,
    output: &mut dyn Write,
) -> u8 {
    let mut stage = Stage { gate, worktree, output };
    if let Some(gate) = gate {
        let words: Vec<String> = gate.iter().cloned().chain(["--announce".to_owned()]).collect();
        if let Err(reason) = ask(&words, worktree, &json!({"hook_event_name": "SessionStart"})) {
            stage.say(&EventKind::Error {
                message: format!("the gate was not announced: {reason}"),
            });
            return 1;
        }
    }
    stage.say(&EventKind::Session { id: "script".to_owned(), model: None });
    for (number, step) in steps.iter().enumerate() {
        if let Some(code) = stage.step(number + 1, step) {
            return code;
        }
    }
    0
}

struct Stage<'a> {
    gate: Option<&'a [String]>,
    worktree: &'a Path,
    output: &'a mut dyn Write,
}

/// The result of a tool.
struct StepResult {
    ok: bool,
    output: String,
    more: Option<EventKind>,
}

impl Stage<'_> {
    /// Plays a step; an exit code means that it was the last one.
    fn step(&mut self, number: usize, step: &ScriptStep) -> Option<u8> {
        match step {
            ScriptStep::Say { text } => self.say(&EventKind::Text { text: text.clone() }),
            ScriptStep::Wait { milliseconds } => {
                std::thread::sleep(Duration::from_millis(*milliseconds));
            }
            ScriptStep::Exit { code } => return Some(*code),
            ScriptStep::Shell { command } => {
                let input = json!({"command": command});
                self.tool(number, "Bash", &input, |place| shell(place, command));
            }
            ScriptStep::Write { path, text } => {
                let input = json!({"file_path": self.whole(path), "content": text});
                self.tool(number, "Write", &input, |place| write(place, path, text));
            }
            ScriptStep::Edit { path, old, new } => {
                let input =
                    json!({"file_path": self.whole(path), "old_string": old, "new_string": new});
                self.tool(number, "Edit", &input, |place| edit(place, path, old, new));
            }
            ScriptStep::Read { path } => {
                let input = json!({"file_path": self.whole(path)});
                self.tool(number, "Read", &input, |place| read(place, path));
            }
        }
        None
    }

    fn whole(&self, path: &str) -> String {
        self.worktree.join(path).display().to_string()
    }

    fn tool(
        &mut self,
        number: usize,
        tool: &str,
        input: &Value,
        act: impl FnOnce(&Path) -> StepResult,
    ) {
        let id = format!("step-{number}");
        let (name, arguments) = (tool.to_owned(), input.clone());
        self.say(&EventKind::ToolCall { id: id.clone(), tool: name, input: arguments });
        let payload = json!({
            "hook_event_name": "PreToolUse", "session_id": "script", "cwd": self.worktree,
            "tool_name": tool, "tool_input": input, "tool_use_id": id,
        });
        let answer = self.gate.map_or(Ok(()), |gate| ask(gate, self.worktree, &payload));
        let result = match answer {
            Ok(()) => act(self.worktree),
            Err(denied) => failed(&denied.to_string()),
        };
        self.say(&EventKind::ToolResult { id, ok: result.ok, output: result.output });
        if let Some(more) = result.more {
            self.say(&more);
        }
    }

    /// Prints an event; the script continues even if nothing reads it.
    fn say(&mut self, what: &EventKind) {
        if let Ok(line) = serde_json::to_string(what) {
            let _ = writeln!(self.output, "{line}").and_then(|()| self.output.flush());
        }
    }
}

/// The gate denied a step, or could not run.
#[derive(Debug, Error)]
#[error("{0}")]
struct Denied(String);

impl Denied {
    fn could_not_run() -> Self {
        Self(GATE_COULD_NOT_RUN.to_owned())
    }
}

/// Asks the gate: only exit code 0 allows the step.
fn ask(gate: &[String], worktree: &Path, payload: &Value) -> Result<(), Denied> {
    let could_not = |_| Denied::could_not_run();
    let (program, words) = gate.split_first().ok_or_else(Denied::could_not_run)?;
    let mut command = Command::new(program);
    command.args(words).current_dir(worktree);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(could_not)?;
    let text = payload.to_string();
    // A thread writes the input: a gate that prints much before it reads must not block both.
    let writing = child.stdin.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let _ = pipe.write_all(text.as_bytes());
        })
    });
    let ended = child.wait_with_output().map_err(could_not)?;
    drop(writing.map(std::thread::JoinHandle::join));
    let reason = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    match ended.status.code() {
        Some(0) => Ok(()),
        Some(2) if !reason.is_empty() => Err(Denied(reason)),
        Some(_) | None => Err(Denied::could_not_run()),
    }
}

fn shell(worktree: &Path, command: &str) -> StepResult {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(worktree).stdin(Stdio::null());
    match shell.output() {
        Ok(ended) => {
            let output = [ended.stdout, ended.stderr].concat();
            let output = String::from_utf8_lossy(&output).into_owned();
            let exit = ended.status.code();
            let more = Some(EventKind::Command { command: command.to_owned(), exit });
            StepResult { ok: exit == Some(0), output, more }
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn write(worktree: &Path, path: &str, text: &str) -> StepResult {
    let file = worktree.join(path);
    let change = if file.exists() { FileChange::Changed } else { FileChange::Added };
    let created = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    match created.and_then(|()| std::fs::write(&file, text)) {
        Ok(()) => changed(path, change),
        Err(error) => failed(&error.to_string()),
    }
}

fn edit(worktree: &Path, path: &str, old: &str, new: &str) -> StepResult {
    let file = worktree.join(path);
    match std::fs::read_to_string(&file) {
        Ok(text) if text.contains(old) => match std::fs::write(&file, text.replacen(old, new, 1)) {
            Ok(()) => changed(path, FileChange::Changed),
            Err(error) => failed(&error.to_string()),
        },
        Ok(_) => failed("the text is not in the file"),
        Err(error) => failed(&error.to_string()),
    }
}

fn read(worktree: &Path, path: &str) -> StepResult {
    match std::fs::read_to_string(worktree.join(path)) {
        Ok(text) => StepResult { ok: true, output: text, more: None },
        Err(error) => failed(&error.to_string()),
    }
}

fn changed(path: &str, change: FileChange) -> StepResult {
    let more = Some(EventKind::FileChange { path: path.to_owned(), change });
    StepResult { ok: true, output: "done".to_owned(), more }
}

fn failed(why: &str) -> StepResult {
    StepResult { ok: false, output: why.to_owned(), more: None }
}
