//! Decisions of the role `developer` about commands of real agents, from a directory outside of this repository:
//!
//! `TRAJECTORIES=DIR cargo test -p bailiwick-cli --test it trajectories -- --ignored --nocapture`
//!
//! It reads files of SWE-agent and mini-swe-agent (`.traj`, `.traj.json`), of OpenHands, of Claude Code and Codex
//! (`.jsonl`), and lines that are JSON strings. The whitelist covers the whole project, so that only commands that
//! the role forbids, or that the parser misreads, are denied. A person must decide which, so causes are counted,
//! and each denial with its reason is written to `DENIALS=FILE`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bailiwick_gate::{HostContext, evaluate_call};
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::{Decision, Outcome, Policy};
use bailiwick_testkit::{Scratch, figure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::corpus::outside_tmp;
use crate::run::run;

/// Tools of SWE-agent that look like programs, and words with which a model begins its text.
const NOT_SHELL: [&str; 27] = [
    "DISCUSSION",
    "THOUGHT:",
    "[File:",
    "append",
    "create",
    "edit",
    "end_of_edit",
    "exit",
    "exit_context",
    "exit_cost",
    "exit_error",
    "exit_forfeit",
    "find_file",
    "goto",
    "insert",
    "open",
    "plan",
    "report",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_dir_and_preview",
    "search_file",
    "skip",
    "str_replace_editor",
    "submit",
    "undo_edit",
];
/// Tools that take a shell command.
const SHELLS: [&str; 9] = [
    "Bash",
    "bash",
    "exec_command",
    "execute_bash",
    "local_shell",
    "run_shell_command",
    "run_terminal_cmd",
    "shell",
    "shell_command",
];

#[test]
#[ignore = "needs TRAJECTORIES, a directory with trajectories of agents"]
fn commands_of_real_agents_are_rarely_denied() {
    let directory = std::env::var_os("TRAJECTORIES").expect("TRAJECTORIES names a directory");
    let mut files = Vec::new();
    list(Path::new(&directory), &mut files);
    let gate = Gate::new();
    let (mut total, mut commands) = (0, BTreeSet::new());
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let shell_commands = shell_commands(&text);
        total += shell_commands.len();
        let root = root(&shell_commands);
        commands.extend(shell_commands.into_iter().map(|command| match &root {
            Some(root) => with_path_replaced(&command, root, &gate.place.path().to_string_lossy()),
            None => command,
        }));
    }
    figure(&format!("commands of real agents: {total}, {} of them different", commands.len()));
    let mut report = String::new();
    for enforcement in [Enforcement::Kernel, Enforcement::TextOnly] {
        let mut causes = BTreeMap::<String, usize>::new();
        for command in &commands {
            let decision = gate.decide(command, enforcement);
            let Some(because) = decision.because.filter(|_| decision.outcome != Outcome::Allow)
            else {
                continue;
            };
            *causes.entry(because.rule.clone()).or_default() += 1;
            let shown: String = command.chars().take(400).collect();
            writeln!(report, "{enforcement:?} {}: {}\n{shown}\n", because.rule, because.reason)
                .unwrap();
        }
        let denied: usize = causes.values().sum();
        let share = 100.0 * denied as f64 / commands.len() as f64;
        let causes: Vec<String> =
            causes.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
        figure(&format!(
            "commands of real agents, {enforcement:?}: {denied} of {} denied ({share:.2} %): {}",
            commands.len(),
            causes.join(", ")
        ));
    }
    if let Some(file) = std::env::var_os("DENIALS") {
        std::fs::write(file, report).unwrap();
    }
    assert!(!commands.is_empty());
}

/// The gate of a run of the role `developer`, whose whitelist covers the project.
struct Gate {
    place: TempDir,
    policy: Policy,
}

impl Gate {
    fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write(
            "task.toml",
            "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = [\"**\"]\n[verification]\ncommands = \
             [\"true\"]\n[body]\ntext = \"do it\"\n[agent]\ncli = \"script\"\n",
        );
        scratch.commit("start");
        run(&scratch, &["spawn", "task.toml", "--agent-id", "one"]).expect_code(0);
        let json = std::fs::read(scratch.state().join("runs/one/policy.json")).unwrap();
        let mut policy = Policy::parse(&json).unwrap();
        // As for a repository in a home directory.
        policy.temporary = vec!["/tmp".to_owned(), "/var/tmp".to_owned()];
        Self { place: tempfile::tempdir_in(outside_tmp()).unwrap(), policy }
    }

    fn decide(&self, command: &str, enforcement: Enforcement) -> Decision {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}}).to_string();
        let host = HostContext::at(self.place.path(), self.place.path()).unwrap();
        let host = host.with_enforcement(enforcement);
        evaluate_call(&self.policy, "", (Dialect::Claude, &[][..]), payload.as_bytes(), &host)
            .decision
    }
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else if path
            .extension()
            .is_some_and(|kind| ["traj", "json", "jsonl"].iter().any(|one| kind == *one))
        {
            files.push(path);
        }
    }
}

/// The shell commands of a file, in order.
fn shell_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    match serde_json::from_str::<Value>(text) {
        Ok(document) => search(&document, &mut commands),
        Err(_) => {
            for line in text.lines() {
                match serde_json::from_str::<Value>(line) {
                    Ok(Value::String(command)) => commands.push(command),
                    Ok(value) => search(&value, &mut commands),
                    Err(_) => {}
                }
            }
        }
    }
    commands
}

fn search(value: &Value, commands: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| search(item, commands)),
        Value::Object(fields) => {
            commands.extend(shell_call(value));
            fields.values().for_each(|field| search(field, commands));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The command of a JSON object that is a call of a shell.
fn shell_call(value: &Value) -> Option<String> {
    if let (Some(action), true) = (value["action"].as_str(), value.get("observation").is_some()) {
        let action = action.trim();
        let first = action.split_whitespace().next()?;
        return (!NOT_SHELL.contains(&first)).then(|| action.to_owned());
    }
    if value["action"] == "run" {
        return value["args"]["command"].as_str().map(str::to_owned);
    }
    let name = value["name"].as_str()?;
    let arguments = ["input", "arguments"].iter().find_map(|key| value.get(key))?;
    let read = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let arguments = read.as_ref().unwrap_or(arguments);
    let command = ["command", "cmd"].iter().find_map(|key| arguments.get(key))?;
    let text = match command.as_array() {
        Some(words) => words.last()?.as_str()?,
        None => command.as_str()?,
    };
    SHELLS.contains(&name).then(|| text.to_owned())
}

/// The directory to which the commands of a file change most often: its project.
fn root(commands: &[String]) -> Option<String> {
    let mut count = BTreeMap::<&str, usize>::new();
    for command in commands {
        let Some(rest) = command.strip_prefix("cd /") else { continue };
        let end = rest.find([' ', ';', '&', '\n']).unwrap_or(rest.len());
        let directory = command.get(3..end + 4)?.trim_end_matches('/');
        if !directory.starts_with("/tmp") && directory.len() > 1 {
            *count.entry(directory).or_default() += 1;
        }
    }
    let known = ["/testbed", "/workspace", "/app"];
    let mentions = |directory: &str| {
        commands.iter().any(|command| with_path_replaced(command, directory, "") != *command)
    };
    let named = known.into_iter().find(|directory| mentions(directory));
    let most_frequent =
        count.into_iter().max_by_key(|(_, times)| *times).map(|(directory, _)| directory);
    named.or(most_frequent).map(str::to_owned)
}

/// The command with its project's path replaced. Longer paths that only begin or end with the old one stay.
fn with_path_replaced(command: &str, from: &str, to: &str) -> String {
    let of_path = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    let mut pieces = command.split(from);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let longer = text.ends_with(of_path) || piece.starts_with(of_path);
        text.push_str(if longer { from } else { to });
        text.push_str(piece);
    }
    text
}
