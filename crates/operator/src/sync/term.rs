//! One term of a leader: from its election to the loss of its Lease.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_client::{ClientError, FleetClient};
use bailiwick_kubernetes::election::RETRY_PERIOD;
use bailiwick_kubernetes::sync::{Takeover, synced_kinds};
use bailiwick_resources::Kind;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::RESYNC_PERIOD;
use super::cluster::{Cluster, ClusterError};
use super::control_plane::{ControlPlane, FenceError, WriteError};
use super::election::{Candidate, Leadership};
use super::queue::Queue;
use super::reconciler::{Outcome, Reconciler};
use super::watches::Watcher;

/// How many objects are written at the same time.
const WORKERS: usize = 8;

/// How an operator runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the Lease calls this process. No two processes have the same.
    pub identity: String,
    /// How long runs that have ended stay in the cluster.
    pub history: Duration,
    /// From whom this process takes over.
    pub takeover: Takeover,
}

/// Why an operator ends by itself. It is started again, and takes part in the next election.
#[derive(Debug, Error)]
pub enum OperatorError {
    #[error("another operator leads now, or the Lease could not be renewed in time")]
    Deposed,
    #[error(
        "the server refuses the token; make another one with `bailiwick tokens new operator --scope admin`, and store it \
         where --token-file names it: it is read when the operator starts"
    )]
    TokenRefused,
    #[error("the watch of {0} in the cluster has ended")]
    WatchEnded(Kind),
    #[error("a part of the operator failed: {0}")]
    TaskFailed(#[source] JoinError),
    #[error("cannot take over the control plane: {0}")]
    Fence(#[source] FenceError),
    #[error(
        "cannot read the namespace `{namespace}`: {error}; if this is not allowed, apply the output of \
         `bailiwick-kubernetes access` again"
    )]
    Namespace {
        namespace: String,
        #[source]
        error: ClusterError,
    },
}

/// Waits for the Lease, leads, and releases the Lease at shutdown.
pub async fn run(
    cluster: Cluster,
    client: Arc<dyn FleetClient>,
    settings: &Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), OperatorError> {
    let mut candidate = Candidate::new(&cluster, &settings.identity);
    tokio::pin!(shutdown);
    let leadership = tokio::select! {
        () = &mut shutdown => return Ok(()),
        leadership = candidate.lead() => Arc::new(leadership),
    };
    tracing::info!(identity = settings.identity, "leads");
    let ended = tokio::select! {
        () = &mut shutdown => Ok(()),
        () = candidate.renew_until_lost(&leadership) => Err(OperatorError::Deposed),
        error = lead(cluster, client, settings, Arc::clone(&leadership)) => Err(error),
    };
    candidate.release(&leadership).await;
    ended
}

/// Keeps both sides in step until another operator leads.
async fn lead(
    cluster: Cluster,
    client: Arc<dyn FleetClient>,
    settings: &Settings,
    leadership: Arc<Leadership>,
) -> OperatorError {
    let uid = match cluster.namespace_uid().await {
        Ok(uid) => uid,
        Err(error) => {
            let namespace = cluster.namespace().to_owned();
            return OperatorError::Namespace { namespace, error };
        }
    };
    let Settings { identity, history, takeover } = settings;
    let control_plane = loop {
        let client = Arc::clone(&client);
        match ControlPlane::take_over(client, identity, uid.clone(), *takeover).await {
            Ok(control_plane) => break control_plane,
            // A scope that is too low stays so. Another operator may have a better token.
            Err(FenceError::Write(WriteError::Unavailable(error)))
                if !matches!(error, ClientError::ScopeDenied { .. }) =>
            {
                tracing::warn!(%error, "cannot write the fence");
                tokio::time::sleep(RETRY_PERIOD).await;
            }
            Err(FenceError::Write(WriteError::TokenRefused(error))) => {
                tracing::error!(%error, "the server refuses the token");
                return OperatorError::TokenRefused;
            }
            Err(error) => return OperatorError::Fence(error),
        }
    };
    let reconciler = Arc::new(Reconciler::new(cluster, control_plane, leadership, *history));
    let queue = Arc::new(Queue::default());
    // Dropping the set ends its tasks.
    let mut tasks = JoinSet::new();
    let (listed, mut all_listed) = watch::channel(0);
    let mut lists = 0;
    for (kind, direction) in synced_kinds() {
        let watcher = Watcher {
            reconciler: Arc::clone(&reconciler),
            queue: Arc::clone(&queue),
            kind,
            direction,
            listed: listed.clone(),
        };
        tasks.spawn(watcher.clone().watch_cluster());
        tasks.spawn(watcher.watch_control_plane());
        lists += 2;
    }
    // What was not listed yet would look as if it were gone.
    tokio::select! {
        ended = first_end(&mut tasks) => return ended,
        _ = all_listed.wait_for(|count| *count == lists) => {}
    }
    tracing::info!("both sides are listed");
    tasks.spawn(resync(Arc::clone(&reconciler), Arc::clone(&queue)));
    for _ in 0..WORKERS {
        tasks.spawn(work(Arc::clone(&reconciler), Arc::clone(&queue)));
    }
    first_end(&mut tasks).await
}

/// Why the first of the tasks has ended. None of them ends by itself: without it, the others would lead for nothing.
async fn first_end(tasks: &mut JoinSet<OperatorError>) -> OperatorError {
    match tasks.join_next().await {
        Some(Ok(error)) => error,
        Some(Err(error)) => OperatorError::TaskFailed(error),
        None => OperatorError::Deposed,
    }
}

async fn work(reconciler: Arc<Reconciler>, queue: Arc<Queue>) -> OperatorError {
    loop {
        let key = queue.next().await;
        match reconciler.reconcile(&key).await {
            Outcome::InStep => queue.done(key, None),
            Outcome::Progress => queue.done(key, Some(Duration::ZERO)),
            Outcome::Later(delay) => queue.done(key, Some(delay)),
            Outcome::Failed | Outcome::Conflict => queue.failed(key),
            Outcome::Deposed => return OperatorError::Deposed,
            Outcome::TokenRefused => return OperatorError::TokenRefused,
        }
    }
}

async fn resync(reconciler: Arc<Reconciler>, queue: Arc<Queue>) -> OperatorError {
    loop {
        reconciler.forget_old();
        tokio::time::sleep(RESYNC_PERIOD).await;
        for key in reconciler.cache.keys() {
            queue.add(key, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::JoinSet;

    use super::{OperatorError, first_end};

    #[tokio::test]
    async fn panic_of_one_task_ends_the_term() {
        let mut tasks = JoinSet::new();
        tasks.spawn(pending::<OperatorError>());
        let waiting =
            tokio::time::timeout(std::time::Duration::from_millis(50), first_end(&mut tasks));
        assert!(waiting.await.is_err(), "the term goes on while all of them run");
        tasks.spawn(async { panic!("a bug") });
        let ended = first_end(&mut tasks).await;
        assert!(matches!(ended, OperatorError::TaskFailed(_)), "{ended}");
    }
}
