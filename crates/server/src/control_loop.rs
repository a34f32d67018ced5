//! Monitors the controllers: each loop records the step that it begins, and the readiness check looks for steps that
//! do not end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether a server runs the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRole {
    Leader,
    /// It serves requests, and another server runs the controllers.
    Follower,
}

impl ServerRole {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
        }
    }
}

/// What the control loops of this server do.
#[derive(Debug, Clone, Default)]
pub struct ControlLoopMonitor(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    role: Option<ServerRole>,
    /// The step that each loop is in, since when.
    loops: BTreeMap<&'static str, (&'static str, Instant)>,
}

impl ControlLoopMonitor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the role of this server. The loops of its last role have ended.
    pub fn set_role(&self, role: ServerRole) {
        *self.state() = State { role: Some(role), loops: BTreeMap::new() };
    }

    pub(crate) fn role(&self) -> Option<ServerRole> {
        self.state().role
    }

    /// Records that a loop begins a step, and has ended the one before.
    pub fn begin_step(&self, control_loop: &'static str, step: &'static str) {
        self.state().loops.insert(control_loop, (step, Instant::now()));
    }

    /// The steps that have not ended for this long.
    pub(crate) fn stalled(&self, timeout: Duration) -> Vec<&'static str> {
        let state = self.state();
        let stalled = state.loops.values().filter(|(_, since)| since.elapsed() > timeout);
        stalled.map(|(step, _)| *step).collect()
    }
}
