//! What can be done with a run: resume, land, respawn.

use bailiwick_model::attempt::Attempt;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, Run, RunState};

use super::first_line;
use crate::context::Context;
use crate::failure::Failure;

/// What can be done with a run of which no agent is running.
pub fn next_step_hint(run: &Run) -> String {
    let id = &run.id;
    match run.state {
        RunState::HalfSpawned => {
            format!("its spawn was interrupted; continue: bailiwick spawn TASK --agent-id {id}")
        }
        RunState::Ready => format!("start it: bailiwick run {id}"),
        RunState::Running => format!("resume it: bailiwick resume {id}"),
        RunState::Done => format!("check its work, and land it: bailiwick land {id}"),
        RunState::Merged => {
            format!(
                "to undo it: bailiwick rollback {id}; after that, bailiwick respawn {id} tries again"
            )
        }
        RunState::Failed | RunState::RolledBack | RunState::Rejected => {
            format!("a new run of its task: bailiwick respawn {id}")
        }
    }
}

/// Returns an error if a limit may not have held in an attempt, or if its role ended it: nothing more comes
/// of such a run.
pub(super) fn require_not_quarantined(id: &AgentId, attempts: &[Attempt]) -> Result<(), Failure> {
    let is_quarantined = |attempt: &&Attempt| {
        matches!(attempt.ending, Some(ExitReason::EnforcementLost | ExitReason::Denied))
    };
    let Some(attempt) = attempts.iter().find(is_quarantined) else { return Ok(()) };
    let ending = attempt.ending.map(ExitReason::as_str).unwrap_or_default();
    Err(Failure::refused(format!(
        "`{id}` is quarantined ({ending}): {}",
        first_line(&attempt.detail)
    ))
    .help(format!("a new run of its task: bailiwick respawn {id}")))
}

/// Returns an error if the work of a run may not land by what its attempts were: only one that came to its
/// end, under limits that held, may. Work without an attempt is judged by its checks alone.
pub fn require_landable(context: &Context, id: &AgentId) -> Result<(), Failure> {
    let attempts = context.with_store(async |store| Ok(store.attempts(Some(id)).await?))?;
    require_not_quarantined(id, &attempts)?;
    match attempts.last().map(|attempt| attempt.ending) {
        None | Some(Some(ExitReason::Completed)) => Ok(()),
        Some(ending) => {
            let ending = ending.map_or("working", ExitReason::as_str);
            Err(Failure::refused(format!(
                "`{id}` cannot land: the last attempt was stopped ({ending})"
            ))
            .help(format!("resume it: bailiwick resume {id}")))
        }
    }
}
