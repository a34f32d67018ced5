//! `policy::git-read-only`: the agent only read git: its state is unchanged.

use super::{Subject, repository};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    repository::needs(subject)
}

pub(super) fn judge(_subject: &Subject<'_>, facts: &Facts) -> Verdict {
    repository::unchanged(facts)
}
