//! After the agent: what it changed, whether it holds, and whether it lands.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use bailiwick_control::ports::Work as _;
use bailiwick_model::AgentId;
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::{FileChange, Phase, What};
use bailiwick_model::settings::AutoLand;

use super::Running;
use super::view::forget_typed;
use crate::commands::land::Land;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::verifying::{Live, Manner, Shown};

/// Keeps what the agent's files say: every change against the commit that it started from.
pub fn note_changes(running: &Running) -> Result<(), Failure> {
    let said = |error: bailiwick_control::ports::WorkError| Failure::general(error.to_string());
    let work = running.subject.found()?;
    work.look_ahead(&running.subject.base).map_err(said)?;
    let base = work.base().map_err(said)?;
    let snapshot = work.snapshot(&base).map_err(said)?;
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).map_err(said)?;
    let noted = changes.iter().flat_map(|change| {
        let kind = match (&change.before, &change.after) {
            (None, _) => FileChange::Added,
            (_, None) => FileChange::Removed,
            (Some(_), Some(_)) => FileChange::Changed,
        };
        change.paths().map(move |path| What::FileChange { path: path.to_owned(), change: kind })
    });
    running.note_all(noted)
}

/// Checks the work, writes down what came of it, and tells the person.
pub fn verify(running: &Running, manner: Manner, quiet: bool) -> Result<Shown, Failure> {
    running.note(What::Phase { phase: Phase::Verifying })?;
    let subject = &running.subject;
    subject.recover()?;
    let mut live = Live::start(quiet);
    let verification = subject.verify(RunMode::Both, manner, &[], &mut live)?;
    drop(live);
    let shown = Shown::new(Some(running.id.to_string()), &verification);
    subject.record(&shown)?;
    if !quiet {
        shown.print();
    }
    Ok(shown)
}

/// Whether it is to land now.
pub fn lands(choice: AutoLand, quiet: bool) -> bool {
    match choice {
        AutoLand::Auto => true,
        AutoLand::Never => false,
        AutoLand::Ask => {
            if quiet || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
                return false;
            }
            // An Enter that was meant for the agent's questions must not answer this one.
            forget_typed(&std::io::stdin());
            let _ = write!(anstream::stderr(), "all hold. land it? [y/N] ");
            let mut said = String::new();
            let _ = std::io::stdin().lock().read_line(&mut said);
            matches!(said.trim(), "y" | "Y" | "yes")
        }
    }
}

/// Lands it.
pub fn land(context: &Context, id: &AgentId, manner: Manner, quiet: bool) -> Result<(), Failure> {
    Land::of(id.clone(), manner).land(context, quiet)
}

/// What can be done next with work that did not land.
pub fn advise(id: &AgentId, holds: bool, repeated: &str) {
    if holds {
        output::next_step(format_args!("bailiwick land {id}{repeated}"));
    } else {
        output::next_step(format_args!(
            "bailiwick respawn {id}{repeated}, or bailiwick reject {id}{repeated}"
        ));
    }
}
