//! `bailiwick replay`: recorded decisions, decided again under other limits.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::policy_file::{self, compile_working};
use bailiwick_model::Sha256Hex;
use bailiwick_policy::decision::Outcome;
use bailiwick_policy::record::Record;
use bailiwick_policy::{Decision, Policy};
use clap::Args;
use serde_json::{Value, json};

use super::explain::Limits;
use crate::failure::Failure;
use crate::output::{self, BOLD, DIM, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Decide recorded tool calls again with another kit, role or task
///
/// Reads logs of the gate (decisions.jsonl), which hold everything that the decision needs; the
/// file system is not read. Without a role or task, each call is decided again by the policy
/// beside its log. Shows what would be answered otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick replay --role edit-local --files 'src/**'\n  \
                        bailiwick replay decisions.jsonl --task task.toml\n  bailiwick replay \
                        --kit-root ../new --role developer --files '**' -o json")]
pub struct Replay {
    /// Logs of decisions; default: the logs of installed hooks
    logs: Vec<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Also show calls whose decision would not change
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatOption,
}

struct Replayed {
    record: Record,
    now: Decision,
}

impl Replayed {
    fn changed(&self) -> bool {
        let rule =
            |decision: &Decision| decision.because.as_ref().map(|because| because.rule.clone());
        self.record.decision.outcome != self.now.outcome
            || rule(&self.record.decision) != rule(&self.now)
    }

    fn flips(&self) -> bool {
        self.record.decision.outcome != self.now.outcome
    }
}

impl Replay {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        policy_file::note_root(context, &[&self.limits.files, &self.limits.deny]);
        let given = self.limits.what().map(|what| compile_working(context, &what)).transpose();
        let given = given.map_err(|failure| self.limits.unknown_role(failure))?;
        let logs = if self.logs.is_empty() { kept_logs(context)? } else { self.logs.clone() };
        let (mut replayed, mut unreadable) = (Vec::new(), Vec::new());
        for log in &logs {
            let own;
            let policy = match &given {
                Some(compiled) => &compiled.policy,
                None => {
                    own = beside(log)?;
                    &own
                }
            };
            read(log, |line, record| match record {
                Ok(record) => {
                    let now = record.decide_again(policy);
                    replayed.push(Replayed { record, now });
                }
                Err(error) => unreadable.push(format!("{}:{line}: {error}", log.display())),
            })?;
        }
        if replayed.is_empty() && unreadable.is_empty() && self.logs.is_empty() {
            return Err(nothing_recorded());
        }
        match self.format.format {
            Format::Json => output::json(&self.value(&replayed, &unreadable))?,
            Format::Human => self.show(&replayed),
        }
        for problem in &unreadable {
            output::note(problem);
        }
        if unreadable.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
    }

    fn value(&self, replayed: &[Replayed], unreadable: &[String]) -> Value {
        let shown = replayed.iter().filter(|one| self.all || one.changed()).map(|one| {
            json!({
                "at": one.record.at,
                "call": one.record.call,
                "was": one.record.decision,
                "now": one.now,
                "changed": one.changed(),
            })
        });
        json!({
            "decisions": replayed.len(),
            "changed": replayed.iter().filter(|one| one.changed()).count(),
            "flipped": replayed.iter().filter(|one| one.flips()).count(),
            "unreadable": unreadable,
            "calls": shown.collect::<Vec<_>>(),
        })
    }

    fn show(&self, replayed: &[Replayed]) {
        for one in replayed.iter().filter(|one| self.all || one.changed()) {
            let call = &one.record.call;
            let files = || call.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>();
            let what = match &call.command {
                Some(command) => command.lines().collect::<Vec<_>>().join(" ⏎ "),
                None if call.unreadable.is_some() => "a call that could not be read".to_owned(),
                None => format!("{} {}", call.cli_tool_name, files().join(" ")),
            };
            let room = output::width().saturating_sub(2);
            output::line(styled(BOLD, output::shortened(what.trim_end(), room)));
            let (was, now) = (&one.record.decision, &one.now);
            output::line(format_args!("  {} → {}", outcome(was), outcome(now)));
            if let Some(because) = &now.because {
                output::wrapped("  ", &format!("{}: {}", because.rule, because.reason));
            }
        }
        let changed = replayed.iter().filter(|one| one.changed()).count();
        let flipped = replayed.iter().filter(|one| one.flips()).count();
        let total = replayed.len();
        output::line(format_args!(
            "{}: {flipped} would be answered otherwise, {} by another rule",
            counted(total, "decision"),
            changed - flipped
        ));
    }
}

fn outcome(decision: &Decision) -> String {
    let rule = decision.because.as_ref().map(|because| format!(" ({})", because.rule));
    let rule = styled(DIM, rule.unwrap_or_default());
    match decision.outcome {
        Outcome::Allow => format!("{}{rule}", styled(GREEN, "allowed")),
        Outcome::Ask => format!("{}{rule}", styled(YELLOW, "asked")),
        Outcome::Deny => format!("{}{rule}", styled(RED, "denied")),
    }
}

/// The logs of installed hooks.
fn kept_logs(context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let hooks = context.state.join("hooks");
    let (mut logs, mut installed) = (Vec::new(), false);
    for entry in std::fs::read_dir(&hooks).into_iter().flatten().flatten() {
        installed |= entry.path().join("policy.json").is_file();
        let log = entry.path().join("decisions.jsonl");
        if log.is_file() {
            logs.push(log);
        }
    }
    logs.sort();
    match (logs.is_empty(), installed) {
        (false, _) => Ok(logs),
        (true, true) => Err(nothing_recorded()),
        (true, false) => Err(Failure::general("no decisions are recorded yet")
            .help("name a log, or install hooks: bailiwick hooks install claude --role developer")),
    }
}

/// The error if hooks are installed but no agent has asked them anything.
fn nothing_recorded() -> Failure {
    Failure::general("hooks are installed, but no decision is recorded yet").help(
        "start the agent, which asks before each tool call; or name a log: bailiwick replay LOG",
    )
}

/// The policy that lies beside a log.
fn beside(log: &Path) -> Result<Policy, Failure> {
    let file = log.with_file_name("policy.json");
    let bytes = std::fs::read(&file).map_err(|error| {
        Failure::general(format!("{} cannot be read: {error}", file.display()))
            .help("say under which limits to decide: --role or --task")
    })?;
    let digest = Sha256Hex::of(&bytes);
    Policy::read(&bytes, digest.as_str()).map_err(|error| Failure::general(error.to_string()))
}

fn read(
    log: &Path,
    mut each: impl FnMut(usize, Result<Record, serde_json::Error>),
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::general(format!("the log {} cannot be read: {error}", log.display()))
    };
    let file = std::fs::File::open(log).map_err(failed)?;
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        each(index + 1, serde_json::from_str(&line));
    }
    Ok(())
}
