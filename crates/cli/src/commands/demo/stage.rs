//! The agents of the demo: each is a process, started as a person would start it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::system;
use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, ReportedBy};

use super::scene;
use crate::failure::Failure;
use crate::output::{self, DIM, GREEN, RED, YELLOW, shortened, styled};

/// The indentation of further lines of an event, and their maximum number.
const FURTHER: &str = "                ";
const MAX_LINES: usize = 4;

/// Runs all agents in parallel, and prints their events.
pub(super) fn run(context: &Context, agents: &[&'static str]) -> Result<(), Failure> {
    let (lines, shown) = channel();
    let mut running = Vec::new();
    for agent in agents {
        running.push((*agent, start(context, agent, lines.clone())?));
    }
    drop(lines);
    for line in shown {
        output::line(line);
    }
    for (agent, mut child) in running {
        let ended = child.wait().map_err(|error| Failure::general(error.to_string()))?;
        if !ended.success() {
            return Err(Failure::general(format!("the agent `{agent}` failed: {ended}"))
                .help("`bailiwick doctor` checks this machine; --sandbox is full here"));
        }
    }
    beyond_the_gate(context)
}

fn start(context: &Context, agent: &'static str, lines: Sender<String>) -> Result<Child, Failure> {
    let failed =
        |error: std::io::Error| Failure::general(format!("`{agent}` cannot be started: {error}"));
    let mut command = Command::new(system::own_program()?);
    context.database.pass_on(&mut command);
    let mut child = command
        .args(["run", &scene::task_file(agent), "--no-verify", "--color", "never"])
        .env("BAILIWICK_STATE", &context.state)
        .env("XDG_CONFIG_HOME", context.user_kit.parent().unwrap_or(&context.user_kit))
        .current_dir(&context.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(pipe) = child.stderr.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if let Some(line) = event_line(agent, &line) {
                    // The receiver is gone when the demo was interrupted.
                    let _ = lines.send(line);
                }
            }
        });
    }
    Ok(child)
}

/// An event of an agent as a line with its name; none for events of the run itself.
fn event_line(agent: &str, line: &str) -> Option<String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let style = match word {
        "allows" => GREEN,
        "denies" => RED,
        "error" | "asks" => YELLOW,
        "recording" | "writing" | "making" | "note:" | "next:" | "completed" => return None,
        _ => {
            let line = shortened(line, output::width().saturating_sub(10));
            return Some(format!("{} {line}", styled(DIM, format_args!("{agent:>8}"))));
        }
    };
    let rest = plain_path(rest);
    let line =
        format!("{} {} {rest}", styled(DIM, format_args!("{agent:>8}")), styled(style, word));
    Some(output::folded(&line, "", FURTHER, MAX_LINES).join("\n"))
}

/// Without the way to the throwaway worktree.
fn plain_path(text: &str) -> String {
    match text.split_once("/worktrees/") {
        None => text.to_owned(),
        Some((before, after)) => {
            let start = before.rfind(' ').map_or("", |end| before.get(..=end).unwrap_or_default());
            let inside = after.split_once('/').map_or(after, |(_, inside)| inside);
            format!("{start}{inside}")
        }
    }
}

/// A script that the gate allowed: the sandbox stopped it.
fn beyond_the_gate(context: &Context) -> Result<(), Failure> {
    let kept = context.database.open()?;
    let id = scene::id("rogue")?;
    let events = kept.with(async |store| store.run_events(&id, 0, 1000).await)?;
    let denied = events.iter().filter(|event| is_denied(event)).count();
    output::line(format_args!(
        "\n`rogue` was denied {}. The sandbox stopped a script that the gate allowed:",
        counted(denied, "call")
    ));
    let call = events.iter().find_map(|event| {
        let EventKind::ToolCall { id, input, .. } = &event.what else { return None };
        (input.get("command")? == scene::RUN_SCRIPT).then_some(id)
    });
    let printed = events.iter().find_map(|event| match (&event.what, event.reported_by) {
        (EventKind::ToolResult { id, output, .. }, ReportedBy::Program) if Some(id) == call => {
            Some(output.clone())
        }
        (_, _) => None,
    });
    for line in printed.unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
        output::line(format_args!("  {line}"));
    }
    Ok(())
}

fn is_denied(event: &Event) -> bool {
    matches!(&event.what, EventKind::Decision { answer: Answer::Deny, .. })
}
