//! Recovers interrupted runs: their supervisor was killed, or the machine went down.
//!
//! Processes in the sandbox ended with the supervisor. The state must still be recorded.

use std::sync::Arc;

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::{EventKind, ExitReason, Phase};
use bailiwick_runner::supervisor::RunDirectory;

use super::granted;
use crate::context::Context;
use crate::database::OpenDatabase;
use crate::delegating::DelegationService;
use crate::failure::Failure;
use crate::system;

const WHY: &str = "its supervisor was killed; nothing of it is running any more";

/// Finds every interrupted run, records it and reports the next step.
pub fn record_interrupted_runs(context: &Context) -> Result<(), Failure> {
    if !context.database.exists() {
        return Ok(());
    }
    let database = context.database.open()?;
    // Lists call this: it must not read every attempt that there ever was.
    let attempts = database.with(async |store| store.open_attempts().await)?;
    for attempt in attempts {
        let directory = RunDirectory::new(&context.state, attempt.run.as_str());
        // If it is locked, another process runs the agent or records the interruption.
        if let Ok(Some(_lock)) = directory.lock() {
            let id = attempt.run.clone();
            // Another process may have recorded it meanwhile.
            if !record_interruption(&database, &id, &directory)? {
                continue;
            }
            let global_options = &context.global_options;
            // A session at a terminal cannot be resumed.
            let verb = match database.with(async |store| store.find(&id).await)? {
                Some(_) => format!("resume it: bailiwick resume {id}{global_options}"),
                None => format!("see what it did: bailiwick logs {id}{global_options}"),
            };
            context.notices.note(format_args!("the run `{id}` was cut off; {verb}"));
            // Nothing waits for the agents that it started.
            DelegationService { caller: Some(id), ..DelegationService::at_terminal(context) }
                .end_below();
        }
    }
    // Also agents that were being started by a killed process.
    let service = DelegationService::at_terminal(context);
    service.tidy().map_err(Failure::into_failed)
}

/// The same for one run that the caller has locked. Returns whether there was anything to settle.
pub fn record_interruption(
    database: &Arc<OpenDatabase>,
    id: &AgentId,
    directory: &RunDirectory,
) -> Result<bool, Failure> {
    // First: once it is recorded as cut off, it is not examined again.
    granted::forget(directory).map_err(|error| {
        let place = directory.granted();
        Failure::general(format!("{} cannot be taken away: {error}", place.display()))
    })?;
    let attempts = database.with(async |store| store.attempts(Some(id)).await)?;
    let mut any = false;
    for attempt in attempts.into_iter().filter(|attempt| attempt.ending.is_none()) {
        cut_off(database, attempt)?;
        any = true;
    }
    Ok(any)
}

fn cut_off(database: &OpenDatabase, mut attempt: Attempt) -> Result<(), Failure> {
    attempt.phase = Phase::Over;
    attempt.ending = Some(ExitReason::CutOff);
    attempt.detail = WHY.to_owned();
    attempt.ended_at = Some(system::now_ms());
    database.record_events(
        &attempt.run,
        [EventKind::Ended { how: ExitReason::CutOff, detail: WHY.to_owned() }],
    )?;
    database.update(&attempt)?;
    Ok(())
}
