//! What tasks of this process can wait for.

use crate::open::Store;
use crate::queue_signals::QueueSignal;

impl Store {
    /// When an attempt or a check is queued.
    pub fn queued_signal(&self) -> QueueSignal {
        self.fleet.queue_signals.queued()
    }

    /// When events of an attempt are stored.
    pub fn reported_signal(&self) -> QueueSignal {
        self.fleet.queue_signals.reported()
    }

    /// When a worker has ended an attempt or a check.
    pub fn finished_signal(&self) -> QueueSignal {
        self.fleet.queue_signals.finished()
    }
}
