//! Leaves the results of runs on their issues, where the forge did not take them when the runs ended.

use std::time::Duration;

use bailiwick_engine::context::Context;
use bailiwick_engine::running::bound_issue;
use tokio::sync::oneshot;

/// The pause between two passes.
const PAUSE: Duration = Duration::from_secs(60);

/// Leaves the missing results, again and again. It never ends.
pub(super) async fn leave_results(context: Context) {
    loop {
        let (done, ended) = oneshot::channel();
        let pass = context.clone();
        // A thread of its own: a forge that does not answer must not delay the end of the server. Each step can be
        // killed and is repeated at the next start.
        let thread = std::thread::Builder::new().name("issue-results".to_owned());
        let started = thread.spawn(move || {
            bound_issue::complete_pending(&pass);
            let _ = done.send(());
        });
        match started {
            Ok(_) => {
                let _ = ended.await;
            }
            Err(error) => tracing::warn!(%error, "results of runs cannot be left on their issues"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
