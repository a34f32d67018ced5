//! The supervisor: runs one attempt from outside of its sandbox.
//!
//! ```text
//!                        ┌─────── attempt_state ───────┐
//!  the agent program ──▶ │ gate      asks, is answered │ ──▶ writer ──▶ events kept, then shown
//!    │  prints lines ──▶ │ program   reader of its CLI │
//!    │  asks a model ──▶ │ observer  proxy's questions │ ──▶ the model
//!  a person ───────────▶ │ control   stop, approve, …  │
//!                        └─────────────────────────────┘
//! ```
//!
//! At a person's own terminal (`interactive`) nothing of what the program prints is read: the gate and
//! the proxy are the only sources.
//!
//! The gate asks `policy_judge`, which decides by the run's policy.
//!
//! `attempt_state` has the shared state (budget, call tracker, end reason) behind one lock; everything that
//! happens becomes an event. The first reason to end wins.

mod attempt_state;
mod callers;
mod control;
mod delegation;
mod directory;
mod disk;
mod disk_usage;
mod gate;
mod home;
mod http_gate;
mod interactive;
mod launch;
mod modes;
mod observer;
mod per_call_checks;
mod policy_judge;
mod program;
mod progress;
mod self_test;
mod sockets;
mod start_up;
mod stdio_gate;
mod terminal;
mod unlinked_files;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use bailiwick_lifecycle::ports::{CallPolicy, Delegation, Events, ForbiddenFiles, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices, Redaction};
use bailiwick_model::AuditLevel;
use bailiwick_model::Event;
use bailiwick_model::attempt::{Exhausted, Used};
use bailiwick_model::event::{EventKind, ExitReason, ReportedBy};
use thiserror::Error;

use crate::agents::adapter::{Adapter, Assignment};
use crate::proxy::{Models, Upstream};

pub use control::{AttemptStatus, Reply, Request, ask};
pub use delegation::{forward, inside_socket};
pub use directory::{RunDirectory, RunLock, StartBlock};
pub use launch::bailiwick_program_inside;
pub use policy_judge::PolicyJudge;
pub use program::Enclosure;
pub use progress::Progress;
pub use self_test::{SelfTestError, SelfTestFailure, SelfTestResult, run_self_test};
pub use terminal::{Screen, restore_terminal};

/// All inputs of one attempt.
pub struct Supervision {
    /// The directory of the run.
    pub directory: RunDirectory,
    /// The agent program's adapter.
    pub adapter: Arc<dyn Adapter>,
    /// The assignment; the endpoints of gate and model are filled in here.
    pub assignment: Assignment,
    /// What the agent sees of the machine.
    pub enclosure: Enclosure,
    /// The real endpoint of the model; `None` without a model.
    pub upstream: Option<Upstream>,
    /// Other hosts that it may reach, as `host:port`.
    pub hosts: Vec<String>,
    /// The models that it may use.
    pub models: Models,
    /// The budget.
    pub budget: Budget,
    /// Usage of earlier attempts.
    pub used: Used,
    /// Elapsed milliseconds of earlier attempts.
    pub time: u64,
    /// Prices of tokens.
    pub prices: Prices,
    /// Secrets to redact from events; renewed keys are added.
    pub redaction: Redaction,
    /// How much of each call is stored.
    pub audit_level: AuditLevel,
    /// Evaluates calls.
    pub call_policy: Arc<dyn CallPolicy>,
    /// Checks the tree between calls; `None` if the role marks no check for that.
    pub checks: Option<Arc<dyn TreeChecks>>,
    /// Removes forbidden new files; `None` if any file may be written.
    pub forbidden_files: Option<Arc<dyn ForbiddenFiles>>,
    /// Whether the first denial ends the attempt.
    pub fail_fast: bool,
    /// Whether the agent is notified once when its tokens are nearly used.
    pub warns_near_limit: bool,
    /// The idle timeout.
    pub idle: Duration,
    /// How many bytes the attempt may add to the disk.
    pub disk: u64,
    /// How long a call waits for approval.
    pub approval: Duration,
    /// Answers the delegation tools; `None` if the agent may not delegate.
    pub delegation: Option<Arc<dyn Delegation>>,
    /// Events of earlier attempts, to replay.
    pub earlier: Vec<Event>,
}

/// Where events are sent.
pub struct Sinks {
    /// Stores them, first.
    pub events: Box<dyn Events>,
    /// Shows them to a person, once they are stored.
    pub show: Box<dyn FnMut(&Event) + Send>,
    /// Reports progress from time to time.
    pub progress: Box<dyn FnMut(&Progress) + Send>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The exit reason.
    pub ending: ExitReason,
    /// The reason as text.
    pub detail: String,
    /// The exhausted budget, if that ended it.
    pub exhausted: Option<Exhausted>,
    /// The exit code of the program, or 128 plus the signal; `None` if the supervisor ended it.
    pub code: Option<i32>,
    /// The final progress.
    pub progress: Progress,
    /// Messages that the agent has not received.
    pub messages: Vec<String>,
}

/// Why an attempt did not start. Nothing of it has run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct SuperviseError {
    /// The operation.
    pub what: String,
    /// The cause.
    pub why: String,
}

impl SuperviseError {
    pub(crate) fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}

/// Stops an attempt from another thread.
#[derive(Clone)]
pub struct Handle(Arc<attempt_state::AttemptState>);

impl Handle {
    /// Stops the attempt.
    pub fn stop(&self, detail: &str) {
        self.0.end(ExitReason::Stopped, detail);
    }

    /// Records a message that the attempt starts with.
    pub fn record_message(&self, text: &str) {
        let what = EventKind::Message { text: text.to_owned() };
        self.0.record_event(ReportedBy::Person, None, what);
    }
}

/// Runs one attempt to its end. When this returns, no process of the agent is left.
///
/// `begun` is called once with a handle, before the agent starts.
pub fn supervise(
    supervision: Supervision,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<AttemptOutcome, SuperviseError> {
    program::run(supervision, None, sinks, begun)
}

/// The same at a person's terminal, which is restored on return. Nothing else may print there meanwhile.
pub fn supervise_at(
    screen: &Screen,
    supervision: Supervision,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<AttemptOutcome, SuperviseError> {
    program::run(supervision, Some(screen), sinks, begun)
}
