//! After the agent: what it changed, whether it holds, and whether it lands.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_model::AgentId;
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::{FileChange, Phase, What};
use bailiwick_model::settings::AutoLand;

use super::Running;
use super::view::forget_typed;
use crate::commands::land::{Land, Telling};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::verifying::{Live, Manner, Shown};
use crate::wire;

/// What the ledger has of an attempt after which nothing differs from the base.
pub const NOTHING_CHANGED: &str = "nothing-changed";

/// Keeps what the agent's files say: every change against the commit that it started from.
pub fn note_changes(running: &Running) -> Result<Changed, Failure> {
    let said = |error: bailiwick_lifecycle::ports::WorkError| Failure::general(error.to_string());
    let work = running.subject.found()?;
    work.start_snapshot(&running.subject.base).map_err(said)?;
    let base = work.base().map_err(said)?;
    let snapshot = work.snapshot(&base).map_err(said)?;
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).map_err(said)?;
    if changes.is_empty() {
        wire::with_store(&running.subject.context, async |store| {
            Ok(store.append_run_note(&running.id, NOTHING_CHANGED, "").await?)
        })?;
    }
    let noted = changes.iter().flat_map(|change| {
        let kind = match (&change.before, &change.after) {
            (None, _) => FileChange::Added,
            (_, None) => FileChange::Removed,
            (Some(_), Some(_)) => FileChange::Changed,
        };
        change.paths().map(move |path| What::FileChange { path: path.to_owned(), change: kind })
    });
    running.note_all(noted)?;
    Ok(if changes.is_empty() { Changed::Nothing } else { Changed::Something })
}

/// Whether anything differs from the base after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Nothing does.
    Nothing,
    /// Something does.
    Something,
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

/// Whether a person is asked if work that holds lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It lands at once.
    No,
    /// A person is asked.
    Yes,
    /// It does not land now.
    Not,
}

/// How it is decided whether work that holds lands. Nobody is asked about work that cannot land.
pub fn asks(running: &Running, choice: AutoLand, quiet: bool) -> Result<Asked, Failure> {
    match choice {
        AutoLand::Auto => return Ok(Asked::No),
        AutoLand::Never => return Ok(Asked::Not),
        AutoLand::Ask => {}
    }
    if quiet || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(Asked::Not);
    }
    if let Err(error) = running.subject.found()?.check_landing(None) {
        output::note(format_args!("it cannot land yet: {error}"));
        return Ok(Asked::Not);
    }
    output::aside(running.subject.diffstat()?.trim_end());
    Ok(Asked::Yes)
}

/// Whether it is to land now.
pub fn lands(asked: Asked) -> bool {
    match asked {
        Asked::No => true,
        Asked::Not => false,
        Asked::Yes => {
            // An Enter that was meant for the agent's questions must not answer this one.
            forget_typed(&std::io::stdin());
            let _ = write!(anstream::stderr(), "all checks passed. Land it? [y/N] ");
            let mut said = String::new();
            let _ = std::io::stdin().lock().read_line(&mut said);
            matches!(said.trim(), "y" | "Y" | "yes")
        }
    }
}

/// Lands it.
pub fn land(
    context: &Context,
    id: &AgentId,
    manner: Manner,
    telling: Telling,
) -> Result<(), Failure> {
    Land::of(id.clone(), manner).land(context, telling)
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
