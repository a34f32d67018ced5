//! Monitors the controllers: each loop records the step that it begins, and the readiness check looks for steps that
//! do not end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The step that each loop is in, since when.
#[derive(Debug, Clone, Default)]
pub struct ControlLoopMonitor(Arc<Mutex<BTreeMap<&'static str, (&'static str, Instant)>>>);

impl ControlLoopMonitor {
    /// Records that a loop begins a step, and has ended the one before.
    pub fn begin_step(&self, control_loop: &'static str, step: &'static str) {
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.insert(control_loop, (step, Instant::now()));
    }

    /// The steps that have not ended for this long.
    pub(crate) fn stalled(&self, timeout: Duration) -> Vec<&'static str> {
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stalled = loops.values().filter(|(_, since)| since.elapsed() > timeout);
        stalled.map(|(step, _)| *step).collect()
    }
}
