//! Whether the control plane still takes its turns: whoever takes them says so, and readiness looks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a turn ended last.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Mutex<Instant>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pulse {
    /// A turn has ended.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether none has for so long.
    pub(crate) fn is_still(&self, long: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > long
    }
}
