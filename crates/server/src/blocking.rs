//! Calls that wait for files and programs, on a thread that may block.

use std::sync::Arc;

use bailiwick_fleet::ports::{LocalRunError, LocalRuns};

use crate::app::App;
use crate::problem::Problem;

/// Calls the port on a thread that may block.
pub(crate) async fn blocking<S, F, T: Send + 'static>(
    app: &Arc<App<S, F>>,
    work: impl FnOnce(&dyn LocalRuns) -> Result<T, LocalRunError> + Send + 'static,
) -> Result<T, Problem> {
    let Some(runs) = app.local_runs.clone() else {
        return Err(Problem::not_found("this server does not show the agents of its machine"));
    };
    let done = tokio::task::spawn_blocking(move || work(runs.as_ref())).await;
    let done = done.map_err(|error| {
        tracing::error!(%error, "reading the agents of this machine panicked");
        Problem::unavailable("internal error (see the server log)")
    })?;
    Ok(done?)
}
