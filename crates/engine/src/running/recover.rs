//! Runs that were cut off: their supervisor was killed, or the machine went down.
//!
//! What was inside of a sandbox has ended with its supervisor. What is left is to say so.

use std::sync::Arc;

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::AgentId;
use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::{EventKind, ExitReason, Phase};
use bailiwick_runner::supervisor::RunDirectory;

use super::granted;
use crate::context::Context;
use crate::database::OpenDatabase;
use crate::delegating::Session;
use crate::failure::Failure;
use crate::system;

const WHY: &str = "its supervisor was killed; nothing of it is running any more";

/// Finds every run that was cut off, writes it down, and says what can be done.
pub fn find(context: &Context) -> Result<(), Failure> {
    if !context.database.path().exists() {
        return Ok(());
    }
    let kept = context.database.open()?;
    let attempts = kept.with(async |store| store.attempts(None).await)?;
    for attempt in attempts.into_iter().filter(|attempt| attempt.ending.is_none()) {
        let directory = RunDirectory::new(&context.state, attempt.run.as_str());
        // Whoever holds it is at work, or settles it just now.
        if let Ok(Some(_lock)) = directory.lock() {
            let id = attempt.run.clone();
            // It may have been settled between the two.
            if !settle(&kept, &id, &directory)? {
                continue;
            }
            let repeated = &context.repeated;
            // Who sat at a terminal is not taken up again.
            let verb = match kept.with(async |store| store.find(&id).await)? {
                Some(_) => format!("go on with it: bailiwick resume {id}{repeated}"),
                None => format!("see what it did: bailiwick logs {id}{repeated}"),
            };
            context.notices.note(format_args!("the run `{id}` was cut off; {verb}"));
            // Those that it started are waited for by nobody.
            Session { caller: Some(id), ..Session::at_terminal(context) }.end_below();
        }
    }
    // And those that were being started by somebody who was killed.
    let session = Session::at_terminal(context);
    session.tidy().map_err(Failure::general)
}

/// The same for one run that the caller holds.
/// Tells whether there was anything to settle.
pub fn settle(
    kept: &Arc<OpenDatabase>,
    id: &AgentId,
    directory: &RunDirectory,
) -> Result<bool, Failure> {
    // First: once it is written down as cut off, nobody looks at it again.
    granted::forget(directory).map_err(|error| {
        let place = directory.granted();
        Failure::general(format!("{} cannot be taken away: {error}", place.display()))
    })?;
    let attempts = kept.with(async |store| store.attempts(Some(id)).await)?;
    let mut any = false;
    for attempt in attempts.into_iter().filter(|attempt| attempt.ending.is_none()) {
        cut_off(kept, attempt)?;
        any = true;
    }
    Ok(any)
}

fn cut_off(kept: &OpenDatabase, mut attempt: Attempt) -> Result<(), Failure> {
    attempt.phase = Phase::Over;
    attempt.ending = Some(ExitReason::CutOff);
    attempt.detail = WHY.to_owned();
    attempt.ended_at = Some(system::now_ms());
    kept.note(
        &attempt.run,
        [EventKind::Ended { how: ExitReason::CutOff, detail: WHY.to_owned() }],
    )?;
    kept.update(&attempt)?;
    Ok(())
}
