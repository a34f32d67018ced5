//! What one pass of the controllers did, and what failed.

use bailiwick_resources::Moment;

use super::ReconcileError;
use super::backoff::RetryTable;
use crate::ports::FleetError;

/// What a controller does to an object, by which failures are told apart in the [`RetryTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Delivery,
    Schedule,
    Poll,
    Queue,
    RecordWorkspace,
    Workspace,
    Run,
    Subagents,
}

/// What one pass of the controllers did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconcileSummary {
    /// How many objects changed.
    pub done: usize,
    /// What failed: the object, and why.
    pub errors: Vec<(String, String)>,
    /// Whether the store did not answer: then no controller can continue.
    pub store_unavailable: bool,
    /// Whether a run changed its phase, so that pools are counted again.
    pub(super) runs_moved: bool,
    pub(super) retries: RetryTable,
    started_at: Moment,
}

impl ReconcileSummary {
    pub(super) fn starting(started_at: Moment, retries: RetryTable) -> Self {
        Self { started_at, retries, ..Self::default() }
    }

    /// Records the result for an object that is tried again in every pass.
    pub(super) fn record(&mut self, about: &str, result: Result<bool, ReconcileError>) {
        match result {
            Ok(true) => self.done += 1,
            Ok(false) => {}
            // Another writer was faster; the next pass sees its result.
            Err(ReconcileError::Store(FleetError::Conflict { .. })) => self.done += 1,
            Err(error) => {
                self.store_unavailable |= error.is_store_unavailable();
                self.errors.push((about.to_owned(), error.to_string()));
            }
        }
    }

    /// Whether an object failed recently and is skipped in this pass.
    pub(super) fn is_backing_off(&self, task: Task, name: &str) -> bool {
        self.retries.is_backing_off(task, name, self.started_at)
    }

    /// Records the result for an object that backs off after a failure.
    pub(super) fn record_with_backoff(
        &mut self,
        task: Task,
        name: &str,
        result: Result<bool, ReconcileError>,
    ) {
        self.runs_moved |= matches!(task, Task::Queue | Task::Run) && !matches!(result, Ok(false));
        match &result {
            Err(error) if !error.is_retried_at_once() => {
                self.retries.failed(task, name, self.started_at);
            }
            Ok(_) | Err(_) => self.retries.succeeded(task, name),
        }
        self.record(name, result);
    }
}
