//! Whether who is connected may ask the model: looked up once for a connection.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Callers, UnauthorizedProcess};

/// Strangers of different names that are reported; a program may take as many names as it likes.
const MAX_REPORTED: usize = 20;

/// Who is at the other end of a connection.
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

/// What a stranger is told, and what is reported of it the first time.
pub(super) struct Refusal {
    pub(super) why: String,
    pub(super) told: Option<String>,
}

/// Who may ask, and which strangers were reported.
pub(super) struct KnownCallers {
    callers: Option<Arc<dyn Callers>>,
    reported: Mutex<BTreeSet<String>>,
}

impl KnownCallers {
    pub(super) fn new(callers: Option<Arc<dyn Callers>>) -> Self {
        Self { callers, reported: Mutex::default() }
    }

    /// A connection is nobody else's later: who was known stays so.
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
