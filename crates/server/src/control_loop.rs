//! Monitors the control loop: it records each iteration, and the readiness check looks for a stall.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time of the last completed iteration.
#[derive(Debug, Clone)]
pub struct ControlLoopMonitor(Arc<Mutex<Instant>>);

impl Default for ControlLoopMonitor {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl ControlLoopMonitor {
    /// Records a completed iteration.
    pub fn record_iteration(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether no iteration was completed for this long.
    pub(crate) fn is_stalled(&self, timeout: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > timeout
    }
}
