//! A run from its start to its result: attempts until no message is pending, then its changes and checks.

use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::{Allowance, Exhausted};
use bailiwick_model::event::ExitReason;
use bailiwick_runner::supervisor::RunDirectory;
use serde::Serialize;

use super::bound_issue::{EnteredIssue, IssueGrant};
use super::finish::{self, Changed};
use super::forbidden_files::left_out_note;
use super::observer::RunObserver;
use super::{AttemptOptions, LockedRun, Start};
use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CheckOptions, IfClosed, RunOptions};
use crate::preconditions;
use crate::verifying::VerificationReport;

/// A request to run an agent.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// How its first attempt begins.
    pub start: Start,
    /// Its limits.
    pub options: RunOptions,
    /// What may be spent from now on, in place of what the task says.
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

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct RunResult {
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
    pub verification: Option<VerificationReport>,
    /// New files outside of its scope, which do not land.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    pub landed: bool,
}

/// A run whose agent has ended. It stays locked until it is released.
pub struct FinishedRun {
    /// The run.
    pub locked_run: LockedRun,
    /// The result.
    pub result: RunResult,
    /// Whether anything differs from the base.
    pub changed: Changed,
}

/// Returns an error if an agent cannot be started like this. Called before it starts in the background, where
/// nobody would see the error.
pub fn require_startable(context: &Context, id: &AgentId, start: &Start) -> Result<(), Failure> {
    LockedRun::lock(context, id)?.require_startable(start)
}

/// Runs an agent until it has ended, and checks its work.
pub fn run(
    context: &Context,
    id: &AgentId,
    request: &RunRequest,
    observer: &dyn RunObserver,
) -> Result<FinishedRun, Failure> {
    preconditions::require_sandbox(request.options.sandbox)?;
    let mut locked_run = LockedRun::lock(context, id)?;
    let entered = EnteredIssue::enter(&locked_run, !request.options.no_verify)?;
    let grant = entered.as_ref().and_then(EnteredIssue::grant);
    let finished = run_locked(context, &mut locked_run, request, grant, observer);
    if let Some(entered) = entered {
        entered.leave(context, finished.as_ref().ok().map(|(result, _)| result));
    }
    let (result, changed) = finished?;
    Ok(FinishedRun { locked_run, result, changed })
}

fn run_locked(
    context: &Context,
    locked_run: &mut LockedRun,
    request: &RunRequest,
    issue: Option<IssueGrant>,
    observer: &dyn RunObserver,
) -> Result<(RunResult, Changed), Failure> {
    let RunRequest { options, budget, if_closed, quiet, .. } = request;
    let id = &locked_run.id.clone();
    let attempt_options = AttemptOptions {
        sandbox: options.sandbox,
        budget: *budget,
        login: options.login,
        open_setup: options.open_setup(),
        quiet: *quiet,
        if_closed: *if_closed,
        issue,
    };
    let mut start = request.start.clone();
    let outcome = loop {
        let directory = locked_run.directory.clone();
        let StartMessages { start: with, words, mut pending } =
            with_pending_messages(&directory, &start)?;
        let before = locked_run.turns();
        let outcome = locked_run.attempt(&with, &attempt_options, observer, |handle| {
            // What was said before is recorded already, as what people say while it works is.
            if let Some(words) = words {
                // It is pending with those, as the last one: no message can arrive before this returns.
                pending += usize::from(directory.add_message(&words).is_ok());
                handle.record_message(&words);
            }
        });
        observer.ended();
        let outcome = outcome?;
        if has_received_messages(outcome.ending, before, outcome.progress.used.turns) {
            // If this fails, the agent gets these messages again, which is better than not at all.
            let _ = directory.acknowledge(pending);
        }
        if outcome.ending != ExitReason::Completed || outcome.messages.is_empty() {
            break outcome;
        }
        // What people have said meanwhile is heard now.
        start = Start::Resume(None);
    };
    locked_run.import()?;
    let changed = finish::record_changes(locked_run)?;
    let mut result = RunResult {
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
        left_out: locked_run.left_out()?,
        landed: false,
    };
    if !quiet && !result.left_out.is_empty() {
        context.notices.note(left_out_note(&result.left_out));
    }
    if result.ending == ExitReason::Completed && !options.no_verify {
        observer.checking(id);
        let mut tell = |progress: Progress<'_>| observer.check_progress(&progress);
        result.verification = Some(finish::verify(locked_run, request.checks(), &mut tell)?);
    }
    Ok((result, changed))
}

/// The messages that an agent gets when it begins.
#[derive(Debug, PartialEq, Eq)]
struct StartMessages {
    /// With the whole prompt.
    start: Start,
    /// The message now.
    words: Option<String>,
    /// How many of the other messages were sent before, and wait until the agent has received them.
    pending: usize,
}

/// A start with the messages that the agent has not received yet, before the new one.
fn with_pending_messages(
    directory: &RunDirectory,
    start: &Start,
) -> Result<StartMessages, Failure> {
    let Start::Resume(words) = start else {
        return Ok(StartMessages { start: start.clone(), words: None, pending: 0 });
    };
    let mut all = directory.pending_messages().map_err(|error| {
        Failure::general(format!("its undelivered messages cannot be read: {error}"))
    })?;
    let pending = all.len();
    all.extend(words.clone());
    let text = (!all.is_empty()).then(|| all.join("\n\n"));
    Ok(StartMessages { start: Start::Resume(text), words: words.clone(), pending })
}

/// Whether an agent has received the first message of an attempt, by the answers of its model before and after it.
fn has_received_messages(ending: ExitReason, before: u64, after: u64) -> bool {
    match after {
        // The responses of some programs are not counted, or they have no model.
        0 => ending == ExitReason::Completed,
        1.. => after > before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_pending_until_an_attempt_gets_a_response() {
        for (ending, before, after, delivered) in [
            (ExitReason::Completed, 3, 4, true),
            (ExitReason::Stopped, 3, 4, true),
            (ExitReason::Failed, 0, 1, true),
            (ExitReason::Failed, 3, 3, false),
            (ExitReason::Stopped, 0, 0, false),
            (ExitReason::Completed, 3, 3, false),
            (ExitReason::Completed, 0, 0, true),
        ] {
            assert_eq!(
                has_received_messages(ending, before, after),
                delivered,
                "{ending} {before} {after}"
            );
        }
    }

    #[test]
    fn pending_messages_come_first_and_stay_until_delivered() {
        let state = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(state.path(), "one");
        directory.make().unwrap();
        directory.add_message("first").unwrap();
        directory.add_message("second").unwrap();
        let resumed = |words: Option<&str>| Start::Resume(words.map(ToOwned::to_owned));
        for (start, merged, words, pending) in [
            (Start::Fresh, Start::Fresh, None, 0),
            (resumed(None), resumed(Some("first\n\nsecond")), None, 2),
            (resumed(Some("now")), resumed(Some("first\n\nsecond\n\nnow")), Some("now"), 2),
        ] {
            let words = words.map(ToOwned::to_owned);
            let expected = StartMessages { start: merged, words, pending };
            assert_eq!(with_pending_messages(&directory, &start).unwrap(), expected);
            assert_eq!(directory.pending_messages().unwrap(), ["first", "second"]);
        }
    }
}
