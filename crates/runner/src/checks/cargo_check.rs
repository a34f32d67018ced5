//! `cargo check` of every target of workspaces.

use bailiwick_verify::JobOutcome;
use bailiwick_verify::job::{CommandResult, Crates, Termination, Warnings};

use super::bench::{Bench, Environment, Program};
use super::job_error::JobError;
use super::messages::{self, CargoMessage};
use super::work::Work;
use super::workspaces::{self, Chosen, Found};
use crate::process::Capture;

/// The exit code of cargo when a build fails.
const FAILED: i32 = 101;

pub(super) fn run(
    bench: &Bench,
    of: &Crates,
    warnings: Warnings,
    tell: &mut dyn FnMut(&str),
) -> Result<JobOutcome, JobError> {
    let job = bench.begin_build()?;
    let chosen = match workspaces::choose(bench, &job, of)? {
        Found::Workspaces(chosen) => chosen,
        Found::Failed(ran) => return Ok(JobOutcome::Commands(vec![ran])),
    };
    let mut all = Vec::new();
    for one in chosen {
        let ran = check(bench, &job, &one, warnings, tell)?;
        let failed = !ran.succeeded();
        all.push(ran);
        if failed {
            break;
        }
    }
    Ok(JobOutcome::Commands(all))
}

/// Warnings are counted in cargo's own messages: a flag for the compiler would build every dependency
/// again.
fn check(
    bench: &Bench,
    job: &Work,
    chosen: &Chosen,
    warnings: Warnings,
    tell: &mut dyn FnMut(&str),
) -> Result<CommandResult, JobError> {
    let mut arguments = vec!["check".to_owned()];
    arguments.extend(chosen.selection());
    arguments.push("--all-targets".to_owned());
    let (line, mut argv) = chosen.command(bench.tree(), arguments);
    tell(&line);
    let capture = match warnings {
        Warnings::Allowed => Capture::Merged,
        Warnings::Denied => {
            argv.push("--message-format=json".to_owned());
            Capture::Separate
        }
    };
    let (mut ran, output) = bench.run(
        job,
        &Program {
            line,
            argv,
            directory: &bench.places.tree.join(&chosen.root),
            environment: Environment::With(&[]),
            capture,
        },
    )?;
    if warnings == Warnings::Denied {
        count_warnings(&mut ran, &output);
    }
    Ok(ran)
}

fn count_warnings(ran: &mut CommandResult, output: &[u8]) {
    let mut text = String::new();
    let mut warnings = 0_usize;
    for message in messages::parse(output) {
        let CargoMessage::Diagnostic { message } = message else { continue };
        text.push_str(&message.rendered.unwrap_or_default());
        warnings += usize::from(message.level == "warning");
    }
    text.push_str(&ran.tail);
    if warnings > 0 && ran.succeeded() {
        ran.ended = Termination::Exit(FAILED);
        let noun = if warnings == 1 { "warning" } else { "warnings" };
        text.push_str(&format!("error: {warnings} {noun}, and a warning is an error here\n"));
    }
    ran.tail = text;
}
