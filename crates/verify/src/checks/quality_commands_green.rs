//! `quality::commands-green`: every command that the task names exits 0.

use super::Subject;
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs::default()
}

pub(super) fn judge(_subject: &Subject<'_>, _facts: &Facts) -> Verdict {
    Verdict::fail("this check is not written yet")
}

/// Whether every one of these jobs ran and succeeded.
pub(super) fn all_succeeded(_jobs: &[crate::job::Job], _facts: &Facts) -> Verdict {
    Verdict::fail("this check is not written yet")
}
