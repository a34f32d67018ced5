//! What a check needs to know of the world, and what was found out.

use std::collections::BTreeMap;

use bailiwick_model::Run;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::job::{Job, Outcome};
use crate::verdict::Verdict;

/// The tree that a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// What the agent made, on the base that it started from.
    Worktree,
    /// The same merged onto today's base.
    SimulatedMerge,
}

/// What a check wants to know beyond the changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The changed files whose text is looked at, before and after, by their path now.
    pub texts: Vec<String>,
    /// What each commit of the work did to manifests and lock files.
    pub commits: bool,
    /// What is to be run.
    pub jobs: Vec<Job>,
    /// How the repository stands against how it stood at the spawn.
    pub repository: bool,
    /// The agent's report.
    pub report: bool,
    /// The agent's row in the ledger.
    pub ledger: bool,
}

/// What was found out.
#[derive(Debug, Clone)]
pub struct Facts {
    /// On which tree.
    pub pass: Pass,
    /// What the agent changed there.
    pub changes: Vec<Change>,
    /// Texts of changed files, by their path now.
    pub texts: BTreeMap<String, Texts>,
    /// What each commit of the work did to manifests and lock files; nothing where nobody asked.
    pub commits: Option<Vec<Committed>>,
    /// How the jobs went.
    pub jobs: BTreeMap<Job, Outcome>,
    /// How the repository stands, if somebody asked.
    pub repository: Option<RepositoryFacts>,
    /// The report, if somebody asked.
    pub report: Option<Report>,
    /// The row in the ledger, if somebody asked and there is one.
    pub ledger: Option<Run>,
    /// What was measured by the checks in front of this one, by capability and pass.
    pub measured: Vec<(String, Pass, Verdict)>,
}

/// What a commit of the work did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its name.
    pub commit: String,
    /// What differs from each of its parents.
    pub against: Vec<Difference>,
}

/// Changed files with their texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// The changes.
    pub changes: Vec<Change>,
    /// The texts, by the path now.
    pub texts: BTreeMap<String, Texts>,
}

/// A file before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Before; nothing where it was not there.
    pub before: Option<Vec<u8>>,
    /// Now; nothing where it is deleted.
    pub after: Option<Vec<u8>>,
}

/// The agent's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where it comes from, as a person would write it.
    pub place: String,
    /// Its text, or why there is none.
    pub text: Result<String, NoReport>,
}

/// Why a report has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReport {
    /// The agent left none: no file and no final message.
    #[error("the agent's final message is not recorded and this file does not exist")]
    Missing,
    /// There is one, and it cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// How the repository stands against how it stood at the spawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// What it is compared with.
    pub since: Since,
    /// The branch or commit that was checked out, and the one that is.
    pub head: Moved,
    /// The commit that HEAD led to, and the one that it leads to.
    pub commit: Moved,
    /// Whether the configuration is another one; not known without a record of the spawn.
    pub configuration: Option<bool>,
    /// Hooks that were added, changed or removed; not known without a record of the spawn.
    pub hooks: Option<Vec<String>>,
    /// References that moved, appeared or vanished, and now reach a commit made in the worktree.
    pub references: Vec<String>,
    /// Commits made in the worktree.
    pub commits: Vec<String>,
}

/// What the repository is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Since {
    /// The record that was made when the agent was spawned.
    Spawn,
    /// The commit where the work left the base branch: there is no record of a spawn.
    #[default]
    MergeBase,
}

/// Something before and now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// At the spawn, as far as it is known.
    pub before: Option<String>,
    /// Now.
    pub now: Option<String>,
}

impl Moved {
    /// Whether it is another one; what is not known did not move.
    pub fn is_moved(&self) -> bool {
        self.before.is_some() && self.before != self.now
    }
}
