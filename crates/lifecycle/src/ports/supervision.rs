//! What a supervisor needs of others: where events are kept, who judges calls, and who checks the tree
//! between them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bailiwick_model::Event;
use bailiwick_policy::Decision;
use bailiwick_policy::protocol::Question;
use bailiwick_policy::record::RecordedCall;
use serde_json::Value;

use thiserror::Error;

use super::{Snapshot, StoreError, WorkError};
use crate::check_result::CheckResult;

/// Stores the events of one run.
pub trait Events: Send {
    /// Keeps these, in this order, and gives each its number. What comes back without an error is kept.
    fn keep(&mut self, events: &mut [Event]) -> Result<(), StoreError>;
}

/// Evaluates tool calls: looks up the facts, decides by the policy and records the decision.
pub trait Judge: Send + Sync {
    /// What is answered. Whatever goes wrong is a denial.
    fn judge(&self, question: &Question) -> Judgement;
}

/// The decision on a call, with the call.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The answer.
    pub decision: Decision,
    /// The call as it is kept: without contents, without secrets.
    pub call: RecordedCall,
    /// What the tool is given, as the program says it; for comparing with what the model asked for.
    pub input: Value,
    /// What a tool of ours is told, as people read it, without secrets; `None` for other tools.
    pub own_tool_text: Option<String>,
    /// What a person is shown of what the tool is given before they say yes, without secrets; empty for a
    /// command, which is shown as it is.
    pub input_preview: String,
}

/// Finds new files that a limit on paths forbids. Mounts protect what is there; a new name is found
/// afterwards.
pub trait ForbiddenFiles: Send + Sync {
    /// Takes those in directories that may be written out of the worktree, keeps them elsewhere, and gives
    /// what was taken.
    fn remove(&self) -> Result<Vec<ForbiddenFile>, WorkError>;

    /// Those outside of the scope that have not been given before. They are in scratch space, where builds
    /// and tests can use them, and never land.
    fn left_out(&self) -> Result<Vec<ForbiddenFile>, WorkError>;
}

/// A new file that is not part of the agent's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForbiddenFile {
    /// From the root of the worktree.
    pub path: String,
    /// The capability that forbids it.
    pub capability: String,
}

/// Why checks could not be run, independent of the tree.
#[derive(Debug, Error)]
pub enum ChecksNotRun {
    /// The base of the work is not known.
    #[error(transparent)]
    Base(#[from] WorkError),
    /// A check could not be run.
    #[error(transparent)]
    Check(Box<dyn std::error::Error + Send + Sync>),
}

/// Checks an agent's tree between its calls, with the checks that its role marks for that.
pub trait TreeChecks: Send + Sync {
    /// The tree as it is now; why there is none where it cannot be told.
    fn snapshot(&self) -> Result<Snapshot, WorkError>;

    /// Runs every marked check on that tree, one after the other, and ends what runs once `gone` says that
    /// nobody needs the verdicts any more. A check that took too long has failed. An error means that one
    /// could not be run, whatever the tree is: nothing is known of that tree then.
    fn check(
        &self,
        work: &Snapshot,
        gone: &Arc<AtomicBool>,
    ) -> Result<Vec<CheckResult>, ChecksNotRun>;

    /// How long both may take.
    fn time(&self) -> Duration;
}
