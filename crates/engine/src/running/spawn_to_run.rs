//! Spawns an agent that is started at once. What it needs is checked before anything is created.

use bailiwick_model::Source;
use bailiwick_model::settings::AutoLand;
use bailiwick_source_control::Repository;

use super::assign;
use crate::claiming::ClaimWait;
use crate::context::Context;
use crate::counted::counted;
use crate::failure::Failure;
use crate::options::{RunOptions, SandboxLevel, UserPresence};
use crate::spawning::{Naming, PlannedAgent, SpawnBindings, Spawned, spawn_checked};
use crate::verifying::worktree_setup;

/// Spawns an agent that is started at once.
pub fn spawn_to_run(
    context: &Context,
    source: &Source,
    naming: Naming<'_>,
    base: &str,
    options: &RunOptions,
    person: UserPresence,
) -> Result<Spawned, Failure> {
    let check = |planned: &PlannedAgent<'_>| {
        assign::require_startable(context, planned, options.login, options.sandbox)?;
        if options.sandbox == SandboxLevel::Off && !planned.bound.task.workspace.setup.is_empty() {
            worktree_setup::require_allowed(options.open_setup())?;
        }
        match (options.land.unwrap_or(planned.settings.run.land), person) {
            (AutoLand::Auto, _) | (AutoLand::Ask, UserPresence::AtTerminal) => {
                note_uncommitted(context, planned.repository)
            }
            // Without a person nobody is asked, so nothing lands.
            (AutoLand::Ask, UserPresence::Absent) | (AutoLand::Never, _) => Ok(()),
        }
    };
    spawn_checked(
        context,
        source,
        naming,
        base,
        SpawnBindings::default(),
        ClaimWait::default(),
        &check,
    )
}

/// Reports before the agent starts that its work cannot land while the checkout has these changes.
fn note_uncommitted(context: &Context, repository: &Repository) -> Result<(), Failure> {
    let changed = repository.uncommitted()?;
    if let Some(first) = changed.first() {
        let more = match changed.len() {
            1 => String::new(),
            count => format!(" and {}", counted(count - 1, "more file")),
        };
        context.notices.note(format_args!(
            "{} has uncommitted changes ({first}{more}), which the agent does not see: commit or stash them, or \
             the work cannot land there",
            repository.root().display()
        ));
    }
    Ok(())
}
