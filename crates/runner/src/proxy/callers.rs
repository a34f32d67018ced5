//! Whether the connected process may use the model: looked up once per connection.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Callers, UnauthorizedProcess};

/// The maximum number of unknown program names that are reported; a program can choose any number of names.
const MAX_REPORTED: usize = 20;

/// The process at the other end of a connection.
#[derive(Debug)]
pub(super) struct Caller {
    peer: SocketAddr,
    known: AtomicBool,
}

impl Caller {
    pub(super) fn new(peer: SocketAddr) -> Self {
        Self { peer, known: AtomicBool::new(false) }
    }
}

/// The answer to an unknown process, and the report of its first request.
pub(super) struct Refusal {
    pub(super) why: String,
    pub(super) told: Option<String>,
}

/// The known processes, and the unknown ones that were reported.
pub(super) struct KnownCallers {
    callers: Option<Arc<dyn Callers>>,
    reported: Mutex<BTreeSet<String>>,
}

impl KnownCallers {
    pub(super) fn new(callers: Option<Arc<dyn Callers>>) -> Self {
        Self { callers, reported: Mutex::default() }
    }

    /// The process of a connection does not change, so the result is cached.
    pub(super) fn admit(&self, caller: &Caller) -> Result<(), Refusal> {
        let Some(callers) = &self.callers else { return Ok(()) };
        if caller.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        match callers.may_ask(caller.peer) {
            Ok(()) => {
                caller.known.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(UnauthorizedProcess { program }) => Err(self.refusal(&program)),
        }
    }

    fn refusal(&self, program: &str) -> Refusal {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let first = reported.len() < MAX_REPORTED && reported.insert(program.to_owned());
        Refusal {
            why: format!(
                "`{program}` asked the model of this run, and only the agent program itself may; let it use \
                 a stand-in for the model, or grant it a key of its own and name the host in `hosts` under \
                 [agent] in the task"
            ),
            told: first.then(|| format!("a model request of `{program}`")),
        }
    }
}
