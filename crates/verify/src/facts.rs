//! What checks need to know, and the facts that were looked up for them.

use std::collections::BTreeMap;

use bailiwick_model::Run;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::executed_tests::Comparison;
use crate::job::{Job, JobOutcome};
use crate::verdict::Verdict;

/// The tree that a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// The work of the agent on the base that it started from.
    Worktree,
    /// The work merged onto the current base.
    SimulatedMerge,
}

/// What a check needs to know in addition to the changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Changed files whose content is needed, before and after, by their path after the change.
    pub texts: Vec<String>,
    /// What each commit of the work changed in manifests and lock files.
    pub commits: bool,
    /// What has to be run.
    pub jobs: Vec<Job>,
    /// How many tests the jobs of the other checks executed, on the base and with the change.
    pub executed_tests: bool,
    /// The state of the repository, compared with its state at the spawn.
    pub repository: bool,
    /// The agent's report.
    pub report: bool,
    /// The agent's ledger row.
    pub ledger: bool,
}

/// The facts that a verdict is derived from. `None` means that they were not looked up.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The tree that the facts are about.
    pub pass: Pass,
    /// What the agent changed in it.
    pub changes: Vec<Change>,
    /// The content of changed files, by their path after the change.
    pub texts: BTreeMap<String, Texts>,
    /// What each commit of the work changed in manifests and lock files.
    pub commits: Option<Vec<CommitDifferences>>,
    /// The outcomes of the jobs.
    pub jobs: BTreeMap<Job, JobOutcome>,
    /// How many tests the jobs executed, on the base and with the change.
    pub executed_tests: Option<Vec<Comparison>>,
    /// The state of the repository.
    pub repository: Option<RepositoryFacts>,
    /// The agent's report.
    pub report: Option<Report>,
    /// The agent's ledger row, if there is one.
    pub ledger: Option<Run>,
    /// The verdicts of the checks that ran before this one, by capability and pass.
    pub measured: Vec<(String, Pass, Verdict)>,
}

/// What a commit of the work changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitDifferences {
    /// The id of the commit.
    pub commit: String,
    /// The differences from each of its parents.
    pub per_parent: Vec<Difference>,
}

/// Changed files with their content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub changes: Vec<Change>,
    /// The content, by the path after the change.
    pub texts: BTreeMap<String, Texts>,
}

/// The content of a file before and after the change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Before; none if the file was added.
    pub before: Option<Vec<u8>>,
    /// After; none if the file was deleted.
    pub after: Option<Vec<u8>>,
}

/// The agent's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where it comes from, as shown to people.
    pub place: String,
    pub text: Result<String, ReportError>,
}

/// Why a report has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The agent left no report file and no final message.
    #[error("the agent's final message is not recorded and this file does not exist")]
    Missing,
    /// The report exists but cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// The state of the repository, compared with a baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    pub baseline: Baseline,
    /// The branch or commit that HEAD names.
    pub head: ValueChange,
    /// The commit that HEAD resolves to.
    pub commit: ValueChange,
    /// Whether git's configuration changed; unknown without a record of the spawn.
    pub configuration: Option<bool>,
    /// Hooks that were added, changed or removed; unknown without a record of the spawn.
    pub hooks: Option<Vec<String>>,
    /// References that were moved, created or deleted and now reach a commit made in the worktree.
    pub references: Vec<String>,
    /// Commits made in the worktree.
    pub commits: Vec<String>,
}

/// What the state of the repository is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Baseline {
    /// The record from the time when the agent was spawned.
    Spawn,
    /// The merge base with the base branch, if there is no record of a spawn.
    #[default]
    MergeBase,
}

/// A value at the baseline and now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueChange {
    /// At the baseline, if it is known.
    pub before: Option<String>,
    pub now: Option<String>,
}

impl ValueChange {
    /// Whether the value changed; an unknown value counts as unchanged.
    pub fn is_changed(&self) -> bool {
        self.before.is_some() && self.before != self.now
    }
}
