//! The ports of a supervisor: the event log, the policy that decides calls, and the checks between calls.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bailiwick_model::Event;
use bailiwick_policy::Decision;
use bailiwick_policy::protocol::GateRequest;
use bailiwick_policy::record::RecordedCall;
use serde_json::Value;

use thiserror::Error;

use super::{Snapshot, StoreError, WorkError};
use crate::check_result::CheckResult;

/// Stores the events of one run.
pub trait Events: Send {
    /// Stores these events in order, and numbers them. After Ok, they are durable.
    fn store(&mut self, events: &mut [Event]) -> Result<(), StoreError>;
}

/// Evaluates tool calls: looks up the facts, decides by the policy and records the decision.
pub trait CallPolicy: Send + Sync {
    /// Decides the call. Every failure is a denial.
    fn decide(&self, question: &GateRequest) -> DecidedCall;
}

/// The decision on a call, with the call.
#[derive(Debug, Clone, PartialEq)]
pub struct DecidedCall {
    /// The answer.
    pub decision: Decision,
    /// The call as it is stored: without contents and secrets.
    pub call: RecordedCall,
    /// The input of the tool, as the agent CLI sends it; to compare with the request of the model.
    pub input: Value,
    /// For our own tools, the input as people read it, without secrets; `None` for other tools.
    pub own_tool_text: Option<String>,
    /// The input as a person sees it before approving, without secrets; empty for a command, which is shown as it
    /// is.
    pub input_preview: String,
}

/// Finds new files that a path limit forbids. Mounts protect existing files; new names are found afterwards.
pub trait ForbiddenFiles: Send + Sync {
    /// Moves such files out of writable directories of the worktree, and returns them.
    fn remove(&self) -> Result<Vec<ForbiddenFile>, WorkError>;

    /// New files outside the scope that were not returned before. They are in scratch space, where builds and tests
    /// can use them, and never land.
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
    /// The current tree, or why there is none.
    fn snapshot(&self) -> Result<Snapshot, WorkError>;

    /// Runs every marked check on that tree, one after the other, and stops once `cancelled` is set, because nobody
    /// needs the verdicts any more. A check that exceeds its time has failed. An error means that a check could not
    /// be run for a reason outside the tree, so nothing is known about it.
    fn check(
        &self,
        work: &Snapshot,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Vec<CheckResult>, ChecksNotRun>;

    /// The time limit for both.
    fn time(&self) -> Duration;
}
