//! Tells all tasks that the server shuts down.

use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct ShutdownTrigger(watch::Sender<bool>);

#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

pub(crate) fn shutdown_channel() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

impl ShutdownTrigger {
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the shutdown. A dropped server counts as shut down.
    pub(crate) async fn requested(&mut self) {
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
