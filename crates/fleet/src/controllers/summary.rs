//! The result of one pass of the controllers, with failures.

use std::sync::Arc;

use bailiwick_resources::Moment;

use super::ReconcileError;
use super::background_jobs::{BackgroundJobs, JobFuture};
use super::backoff::RetryTable;
use crate::ports::{Clock, FleetError};

/// An action of a controller on an object, by which the [`RetryTable`] distinguishes failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Observe,
    Checkout,
    Delivery,
    Schedule,
    Poll,
    Queue,
    RecordWorkspace,
    Workspace,
    Run,
    Subagents,
    CommitStatus,
}

impl Task {
    /// Whether its objects are runs.
    pub(super) fn is_about_a_run(self) -> bool {
        match self {
            Self::Queue | Self::RecordWorkspace | Self::Run => true,
            Self::Observe
            | Self::Checkout
            | Self::Delivery
            | Self::Schedule
            | Self::Poll
            | Self::Workspace
            | Self::Subagents
            | Self::CommitStatus => false,
        }
    }
}

/// The result of one pass of the controllers.
#[derive(Debug, Default)]
pub struct ReconcileSummary {
    /// How many objects changed.
    pub done: usize,
    /// Failed objects with their errors.
    pub errors: Vec<(String, String)>,
    /// Whether the store did not answer: then no controller can continue.
    pub store_unavailable: bool,
    /// Whether a run changed its phase, so that pools are counted again.
    pub(super) runs_moved: bool,
    pub(super) retries: RetryTable,
    jobs: Arc<BackgroundJobs>,
    started_at: Moment,
}

impl ReconcileSummary {
    pub(super) fn starting(
        started_at: Moment,
        retries: RetryTable,
        jobs: Arc<BackgroundJobs>,
    ) -> Self {
        let mut summary = Self { started_at, retries, jobs, ..Self::default() };
        summary.take_finished();
        for name in summary.jobs.take_overdue(started_at) {
            let why = "the work on it has not ended for a long time; it is not started again";
            summary.errors.push((name, why.to_owned()));
        }
        summary
    }

    /// Processes an object that backs off after a failure. Slow work continues beside this pass.
    pub(super) async fn run<W: Clock>(
        &mut self,
        world: &Arc<W>,
        task: Task,
        name: &str,
        work: JobFuture,
    ) {
        self.run_within(world, (task, name), name, work).await;
    }

    /// The same for an object that follows another one of the same group.
    pub(super) async fn run_within<W: Clock>(
        &mut self,
        world: &Arc<W>,
        (task, group): (Task, &str),
        name: &str,
        work: JobFuture,
    ) {
        let jobs = Arc::clone(&self.jobs);
        jobs.run(world, (task, group.to_owned()), name.to_owned(), work).await;
        self.take_finished();
    }

    /// Whether a job of an earlier pass works on this object or group.
    pub(super) fn is_running(&self, task: Task, name: &str) -> bool {
        self.jobs.is_running(task, name)
    }

    fn take_finished(&mut self) {
        for outcome in self.jobs.take_finished() {
            self.record_with_backoff(outcome.task, &outcome.name, outcome.result);
        }
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
