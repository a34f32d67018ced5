//! Finishes an attempt: records the changes and runs the checks.

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_lifecycle::verification::Progress;
use bailiwick_model::LedgerNote;
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::{EventKind, FileChange, Phase};

use super::LockedRun;
use crate::failure::Failure;
use crate::options::CheckOptions;
use crate::verifying::VerificationReport;

/// Stores the agent's changes against the commit that it started from.
pub fn record_changes(running: &LockedRun) -> Result<Changed, Failure> {
    let failed = |error: bailiwick_lifecycle::ports::WorkError| Failure::general(error.to_string());
    let work = running.subject.git_work()?;
    work.start_snapshot(&running.subject.base).map_err(failed)?;
    let base = work.base().map_err(failed)?;
    let snapshot = work.snapshot(&base).map_err(failed)?;
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).map_err(failed)?;
    if changes.is_empty() {
        running.subject.context.with_store(async |store| {
            Ok(store.append_run_note(&running.id, LedgerNote::NothingChanged, "").await?)
        })?;
    }
    let noted = changes.iter().flat_map(|change| {
        let kind = match (&change.before, &change.after) {
            (None, _) => FileChange::Added,
            (_, None) => FileChange::Removed,
            (Some(_), Some(_)) => FileChange::Changed,
        };
        change
            .paths()
            .map(move |path| EventKind::FileChange { path: path.to_owned(), change: kind })
    });
    running.record_events(noted)?;
    Ok(if changes.is_empty() { Changed::Nothing } else { Changed::Something })
}

/// Whether anything differs from the base after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Nothing differs.
    Nothing,
    /// Something differs.
    Something,
}

/// Checks the work, and records the result.
pub fn verify(
    running: &LockedRun,
    checks: CheckOptions,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<VerificationReport, Failure> {
    running.record_event(EventKind::Phase { phase: Phase::Verifying })?;
    let subject = &running.subject;
    subject.recover()?;
    subject.verify_and_record(RunMode::Both, checks, &[], tell)
}
