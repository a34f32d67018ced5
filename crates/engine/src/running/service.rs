//! A run from its start to what came of it: attempts until nobody has more to say, then its changes and checks.

use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Exhausted};
use bailiwick_model::event::ExitReason;
use bailiwick_runner::supervisor::RunDirectory;
use serde::Serialize;

use super::finish::{self, Changed};
use super::forbidden_files::left_out_note;
use super::observer::RunObserver;
use super::{AttemptOptions, Running, Start};
use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CheckOptions, IfClosed, RunOptions};
use crate::preconditions;
use crate::verifying::Shown;

/// What is wanted of a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// How its first attempt begins.
    pub start: Start,
    /// How it is held.
    pub options: RunOptions,
    /// What may be spent from now on, in the place of what the task says.
    pub budget: Option<Allowance>,
    /// Whether it begins if it was closed.
    pub if_closed: IfClosed,
    /// Whether notes about it are left out.
    pub quiet: bool,
}

impl RunRequest {
    /// How its work is checked.
    pub fn checks(&self) -> CheckOptions {
        let open_setup = self.options.open_setup();
        CheckOptions { sandbox: self.options.sandbox, open_setup, ..CheckOptions::default() }
    }
}

/// What came of a run.
#[derive(Debug, Serialize)]
pub struct Ran {
    pub agent_id: String,
    pub ending: ExitReason,
    pub detail: String,
    /// What it ran out of, if that ended it.
    #[serde(skip)]
    pub exhausted: Option<Exhausted>,
    pub tokens: u64,
    pub micro_usd: u64,
    pub turns: u64,
    pub tool_calls: u64,
    pub denied: u64,
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Shown>,
    /// New files outside of its scope, which do not land.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    pub landed: bool,
}

/// A run whose agent has ended. It is held until it is released.
pub struct Ended {
    /// The run.
    pub running: Running,
    /// What came of it.
    pub ran: Ran,
    /// Whether anything differs from the base.
    pub changed: Changed,
}

/// Runs an agent until it has ended, and checks its work.
pub fn run(
    context: &Context,
    id: &AgentId,
    request: &RunRequest,
    observer: &dyn RunObserver,
) -> Result<Ended, Failure> {
    let RunRequest { options, budget, if_closed, quiet, .. } = request;
    preconditions::require_sandbox(options.sandbox)?;
    let mut running = Running::hold(context, id)?;
    let attempt_options = AttemptOptions {
        sandbox: options.sandbox,
        budget: *budget,
        login: options.login,
        open_setup: options.open_setup(),
        quiet: *quiet,
        if_closed: *if_closed,
    };
    let mut start = request.start.clone();
    let outcome = loop {
        let directory = running.directory.clone();
        let Told { start: with, words, mut unheard } = with_unheard(&directory, &start)?;
        let before = running.turns();
        let outcome = running.attempt(&with, &attempt_options, observer, |handle| {
            // What was said before is written down already, as what people say while it works is.
            if let Some(words) = words {
                // It waits with those, and is the last of them: nobody says more before this returns.
                unheard += usize::from(directory.say(&words).is_ok());
                handle.said(&words);
            }
        });
        observer.ended();
        let outcome = outcome?;
        if has_heard(outcome.ending, before, outcome.progress.used.turns) {
            // What stays would be heard twice, which is better than not at all.
            let _ = directory.heard(unheard);
        }
        if outcome.ending != ExitReason::Completed || outcome.messages.is_empty() {
            break outcome;
        }
        // What people have said meanwhile is heard now.
        start = Start::Resume(None);
    };
    running.import()?;
    let changed = finish::note_changes(&running)?;
    let mut ran = Ran {
        agent_id: id.to_string(),
        ending: outcome.ending,
        detail: outcome.detail,
        exhausted: outcome.exhausted,
        tokens: outcome.progress.used.tokens,
        micro_usd: outcome.progress.used.micro_usd,
        turns: outcome.progress.used.turns,
        tool_calls: outcome.progress.used.tool_calls,
        denied: outcome.progress.used.denied,
        session: outcome.progress.session,
        verification: None,
        left_out: running.left_out()?,
        landed: false,
    };
    if !quiet && !ran.left_out.is_empty() {
        context.notices.note(left_out_note(&ran.left_out));
    }
    if ran.ending == ExitReason::Completed && !options.no_verify {
        observer.checking(id);
        let mut tell = |progress: Progress<'_>| observer.check_progress(&progress);
        ran.verification = Some(finish::verify(&running, request.checks(), &mut tell)?);
    }
    Ok(Ended { running, ran, changed })
}

/// What an agent is told as it begins.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// With all that it is told.
    start: Start,
    /// What it is told now.
    words: Option<String>,
    /// How many of those it is told besides were said before, and wait until it has heard them.
    unheard: usize,
}

/// A start with what was said to the agent and it has not heard, before what it is told now.
fn with_unheard(directory: &RunDirectory, start: &Start) -> Result<Told, Failure> {
    let Start::Resume(words) = start else {
        return Ok(Told { start: start.clone(), words: None, unheard: 0 });
    };
    let mut all = directory.not_heard().map_err(|error| {
        Failure::general(format!("what it has not heard cannot be read: {error}"))
    })?;
    let unheard = all.len();
    all.extend(words.clone());
    let told = (!all.is_empty()).then(|| all.join("\n\n"));
    Ok(Told { start: Start::Resume(told), words: words.clone(), unheard })
}

/// Whether an agent has heard what an attempt began with, by the answers of its model before and after it.
fn has_heard(ending: ExitReason, before: u64, after: u64) -> bool {
    match after {
        // Nobody counts the answers of some programs, or they have no model.
        0 => ending == ExitReason::Completed,
        1.. => after > before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_waits_until_an_attempt_has_had_an_answer() {
        for (ending, before, after, heard) in [
            (ExitReason::Completed, 3, 4, true),
            (ExitReason::Stopped, 3, 4, true),
            (ExitReason::Failed, 0, 1, true),
            (ExitReason::Failed, 3, 3, false),
            (ExitReason::Stopped, 0, 0, false),
            (ExitReason::Completed, 3, 3, false),
            (ExitReason::Completed, 0, 0, true),
        ] {
            assert_eq!(has_heard(ending, before, after), heard, "{ending} {before} {after}");
        }
    }

    #[test]
    fn what_was_said_before_comes_first_and_stays_until_it_is_heard() {
        let state = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(state.path(), "one");
        directory.make().unwrap();
        directory.say("first").unwrap();
        directory.say("second").unwrap();
        let resumed = |words: Option<&str>| Start::Resume(words.map(ToOwned::to_owned));
        for (start, told, words, unheard) in [
            (Start::Fresh, Start::Fresh, None, 0),
            (resumed(None), resumed(Some("first\n\nsecond")), None, 2),
            (resumed(Some("now")), resumed(Some("first\n\nsecond\n\nnow")), Some("now"), 2),
        ] {
            let words = words.map(ToOwned::to_owned);
            let expected = Told { start: told, words, unheard };
            assert_eq!(with_unheard(&directory, &start).unwrap(), expected);
            assert_eq!(directory.not_heard().unwrap(), ["first", "second"]);
        }
    }
}
