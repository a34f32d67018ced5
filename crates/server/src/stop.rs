//! The word that the server stops, for everybody who must hear it.

use tokio::sync::watch;

/// Says it, once.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

pub(crate) fn stopping() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub(crate) fn is_said(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it. A server that is gone has stopped too.
    pub(crate) async fn said(&mut self) {
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
