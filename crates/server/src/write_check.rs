//! The write of the readiness check: seldom enough to cost little, and never awaited for long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_fleet::ports::FleetStore;
use tokio::sync::watch;

use crate::problem::Problem;

/// How long the result of a write counts, so that frequent checks cost the store little.
const MAX_AGE: Duration = Duration::from_secs(2);
/// The same for a write that failed, so that the end of a fault is noticed soon.
const MAX_AGE_OF_FAILURE: Duration = Duration::from_millis(500);
/// How long a check waits for a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The last write of the readiness check, and the one that is running.
#[derive(Debug, Default)]
pub(crate) struct WriteCheck {
    state: Mutex<WriteState>,
    finished: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct WriteState {
    last: Option<(Instant, bool)>,
    running_since: Option<Instant>,
}

impl WriteCheck {
    fn state(&self) -> MutexGuard<'_, WriteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store could be written to just now.
    fn recent(&self) -> Option<bool> {
        let last = self.state().last;
        last.filter(|(when, succeeded)| {
            when.elapsed() < if *succeeded { MAX_AGE } else { MAX_AGE_OF_FAILURE }
        })
        .map(|(_, succeeded)| succeeded)
    }

    /// Writes something, or waits for the write of another request.
    pub(crate) async fn check<S: FleetStore>(
        self: &Arc<Self>,
        store: &Arc<S>,
    ) -> Result<(), Problem> {
        let mut finished = self.finished.subscribe();
        finished.mark_unchanged();
        let succeeded = match self.recent() {
            Some(succeeded) => succeeded,
            None => {
                let idle = {
                    let mut state = self.state();
                    let idle = state.running_since.is_none();
                    state.running_since.get_or_insert_with(Instant::now);
                    idle
                };
                if idle {
                    // A task of its own: it must end also if this request does not wait for it.
                    tokio::spawn(write(Arc::clone(self), Arc::clone(store)));
                }
                let _ = tokio::time::timeout(WRITE_TIMEOUT, finished.changed()).await;
                match self.recent() {
                    Some(succeeded) => succeeded,
                    None => {
                        return Err(Problem::unavailable(
                            "a write to the database does not end; another process may have locked it",
                        ));
                    }
                }
            }
        };
        if succeeded {
            return Ok(());
        }
        let message = "the database cannot be written to (the server log has the reason)";
        Err(Problem::unavailable(message))
    }
}

async fn write<S: FleetStore>(check: Arc<WriteCheck>, store: Arc<S>) {
    let written = store.check_writable().await;
    if let Err(error) = &written {
        tracing::error!(%error, "the database cannot be written to");
    }
    {
        let mut state = check.state();
        state.last = Some((Instant::now(), written.is_ok()));
        state.running_since = None;
    }
    check.finished.send_modify(|count| *count = count.wrapping_add(1));
}
