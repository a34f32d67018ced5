//! The supervisor: holds one attempt of a run from outside of its sandbox.
//!
//! ```text
//!                        ┌──────────── hub ────────────┐
//!  the agent program ──▶ │ gate      asks, is answered │ ──▶ writer ──▶ events kept, then shown
//!    │  prints lines ──▶ │ program   reader of its CLI │
//!    │  asks a model ──▶ │ observer  proxy's questions │ ──▶ the model
//!  a person ───────────▶ │ control   stop, approve, …  │
//!                        └─────────────────────────────┘
//! ```
//!
//! At a person's own terminal (`interactive`) nothing of what the program prints is read: the gate and
//! the proxy are the witnesses.
//!
//! The gate asks `policy_judge`, which decides by the run's policy.
//!
//! The hub holds what is known (budget, watch over the gate, ending) behind one lock; everything that
//! happens becomes an event. The first reason to end wins.

mod between;
mod callers;
mod canary;
mod control;
mod delegation;
mod desk;
mod directory;
mod disk;
mod gate;
mod home;
mod hub;
mod interactive;
mod launch;
mod modes;
mod observer;
mod policy_judge;
mod program;
mod sockets;
mod start_up;
mod talk;
mod unlinked_files;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use bailiwick_lifecycle::ports::{Delegation, Events, ForbiddenFiles, Judge, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices, Redaction};
use bailiwick_model::AuditLevel;
use bailiwick_model::Event;
use bailiwick_model::attempt::{Exhausted, Used};
use bailiwick_model::event::{EventKind, ExitReason, ReportedBy};
use thiserror::Error;

use crate::agents::adapter::{Adapter, Assignment};
use crate::proxy::{Models, Upstream};

pub use canary::{CanaryError, Proof, SelfTestError, prove};
pub use control::{Reply, Request, Standing, ask};
pub use delegation::{forward, inside_socket};
pub use directory::{RunDirectory, RunLock, Unheld};
pub use hub::Progress;
pub use interactive::{Screen, restore_terminal};
pub use launch::own_inside;
pub use policy_judge::PolicyJudge;
pub use program::Enclosure;

/// Everything about one attempt.
pub struct Supervision {
    /// Where the run has its things.
    pub directory: RunDirectory,
    /// The agent program's adapter.
    pub adapter: Arc<dyn Adapter>,
    /// What the agent is to do; where its gate and its model are is filled in here.
    pub assignment: Assignment,
    /// What it sees of the machine.
    pub enclosure: Enclosure,
    /// Where its model really is; nothing where it has none.
    pub upstream: Option<Upstream>,
    /// Hosts that it can reach besides, as `host:port`.
    pub hosts: Vec<String>,
    /// The models that it may ask.
    pub models: Models,
    /// What it may spend.
    pub budget: Budget,
    /// What earlier attempts have used.
    pub used: Used,
    /// How long earlier attempts took, in milliseconds.
    pub time: u64,
    /// What tokens cost.
    pub prices: Prices,
    /// What must not be seen in an event; keys that are had anew are added.
    pub redaction: Redaction,
    /// How much of each call is written down.
    pub keeps: AuditLevel,
    /// Who judges its calls.
    pub judge: Arc<dyn Judge>,
    /// Who checks its tree between calls; nobody where its role has marked no check for that.
    pub checks: Option<Arc<dyn TreeChecks>>,
    /// Who removes new files that it may not make; nobody where it may write anywhere.
    pub forbidden_files: Option<Arc<dyn ForbiddenFiles>>,
    /// Whether the first denial ends it.
    pub fail_fast: bool,
    /// After how long without a sign of life it is ended.
    pub idle: Duration,
    /// How many bytes it may add to the disk in an attempt.
    pub disk: u64,
    /// How long a call waits for a person.
    pub approval: Duration,
    /// Who answers its delegation tools; nobody where it may not delegate.
    pub delegation: Option<Arc<dyn Delegation>>,
    /// Events of earlier attempts, for the watch over the gate.
    pub earlier: Vec<Event>,
}

/// Where events go.
pub struct Sinks {
    /// Kept for good, first.
    pub events: Box<dyn Events>,
    /// Shown to a person, after they are kept.
    pub show: Box<dyn FnMut(&Event) + Send>,
    /// Told how the attempt stands, now and then.
    pub progress: Box<dyn FnMut(&Progress) + Send>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub ending: ExitReason,
    /// In words.
    pub detail: String,
    /// What it ran out of, if that ended it.
    pub exhausted: Option<Exhausted>,
    /// The program's exit code, or the one that shells give to a signal; nothing if we have ended it.
    pub code: Option<i32>,
    /// How it stood at the end.
    pub progress: Progress,
    /// What people have said to it meanwhile, and it has not heard.
    pub messages: Vec<String>,
}

/// Why an attempt did not begin. Nothing of it has run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {why}")]
pub struct SuperviseError {
    /// What was tried.
    pub what: String,
    /// What went wrong.
    pub why: String,
}

impl SuperviseError {
    pub(crate) fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}

/// Something with which another thread can end an attempt.
#[derive(Clone)]
pub struct Handle(Arc<hub::Hub>);

impl Handle {
    /// Ends it.
    pub fn stop(&self, detail: &str) {
        self.0.end(ExitReason::Stopped, detail);
    }

    /// Writes down what a person says to the agent with the attempt's beginning.
    pub fn said(&self, text: &str) {
        let what = EventKind::Message { text: text.to_owned() };
        self.0.tell(ReportedBy::Person, None, what);
    }
}

/// Runs one attempt to its end. When this returns, nothing of the agent is left running.
///
/// `begun` is called once with a handle, before the agent starts.
pub fn supervise(
    supervision: Supervision,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<Outcome, SuperviseError> {
    program::run(supervision, None, sinks, begun)
}

/// The same at a person's terminal, which is as it was when this returns. Nothing may be printed there
/// meanwhile.
pub fn supervise_at(
    screen: &Screen,
    supervision: Supervision,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<Outcome, SuperviseError> {
    program::run(supervision, Some(screen), sinks, begun)
}
