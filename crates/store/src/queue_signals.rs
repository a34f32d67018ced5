//! Wakes tasks of this process that wait for the queue of workers. What other processes write is found by polling.

use tokio::sync::watch;

/// What this process has written to the queue.
#[derive(Debug, Default)]
pub(crate) struct QueueSignals {
    queued: watch::Sender<()>,
    reported: watch::Sender<()>,
    finished: watch::Sender<()>,
}

/// Something that a task can wait for.
#[derive(Debug)]
pub struct QueueSignal(watch::Receiver<()>);

impl QueueSignal {
    /// Completes after the next time since it was created, or since it completed last.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl QueueSignals {
    pub(crate) fn send_queued(&self) {
        self.queued.send_replace(());
    }

    pub(crate) fn send_reported(&self) {
        self.reported.send_replace(());
    }

    pub(crate) fn send_finished(&self) {
        self.finished.send_replace(());
    }

    pub(crate) fn queued(&self) -> QueueSignal {
        QueueSignal(self.queued.subscribe())
    }

    pub(crate) fn reported(&self) -> QueueSignal {
        QueueSignal(self.reported.subscribe())
    }

    pub(crate) fn finished(&self) -> QueueSignal {
        QueueSignal(self.finished.subscribe())
    }
}
