//! Leader election of `bailiwick serve`: the leader runs the controllers, and the other servers try to take over.

use std::fmt::Display;
use std::sync::Arc;

use bailiwick_client::TraceCollector;
use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::plane_with;
use bailiwick_fleet::controllers::Retention;
use bailiwick_resources::Span;
use bailiwick_server::{ControlLoopMonitor, ServerRole};
use bailiwick_store::{Election, LeaderLease, RENEWAL_INTERVAL, Store};
use tokio::task::JoinHandle;

use super::serve::control;
use super::serve_issues::leave_results;
use super::serve_traces::send_traces;
use crate::failure::Failure;

/// Why a server must not run beside the leader of another machine.
const LEADER_ELSEWHERE: &str = "a server on another machine, or with another state directory, leads this database; \
     its runs are processes and files there";
const RUN_TOGETHER: &str =
    "run all servers of a database on one machine, as one user, with the same BAILIWICK_STATE";

/// A server that runs the controllers while it is the leader.
pub(super) struct Candidate {
    /// Where traces of runs are sent.
    pub(super) collector: Option<TraceCollector>,
    pub(super) context: Context,
    pub(super) store: Arc<Store>,
    pub(super) monitor: ControlLoopMonitor,
    pub(super) keep: Span,
    pub(super) keep_audit: Span,
    /// How long a worker may be silent, in milliseconds.
    pub(super) worker_lease: u64,
}

/// Why a leader stopped its controllers.
#[derive(Debug, PartialEq, Eq)]
enum TermEnd {
    Shutdown,
    /// The database did not answer before the controllers were started.
    NotStarted,
    LeaseLost,
    Failed(String),
}

/// The first election of a server, which may not start where it cannot follow the leader.
pub(super) async fn first_election(store: &Store, is_file: bool) -> Result<Election, Failure> {
    match store.try_to_lead().await? {
        Election::Follower if is_file => {
            Err(Failure::usage("another `bailiwick serve` uses this database"))
        }
        Election::LeaderElsewhere => Err(Failure::usage(LEADER_ELSEWHERE).help(RUN_TOGETHER)),
        election @ (Election::Elected(_) | Election::Follower) => Ok(election),
    }
}

/// The role of a server after its first election.
pub(super) fn first_role(election: &Election) -> ServerRole {
    match election {
        Election::Elected(_) => ServerRole::Leader,
        Election::Follower | Election::LeaderElsewhere => ServerRole::Follower,
    }
}

impl Candidate {
    /// Leads and follows until shutdown. Returns the reason if the server must stop for another one.
    pub(super) async fn run(
        self,
        first: Election,
        shutdown: impl Future<Output = ()>,
    ) -> Option<String> {
        tokio::pin!(shutdown);
        let mut election = first;
        loop {
            match election {
                Election::Elected(lease) => match self.lead(&lease, shutdown.as_mut()).await {
                    TermEnd::Shutdown => {
                        lease.release().await;
                        return None;
                    }
                    TermEnd::NotStarted => lease.release().await,
                    TermEnd::LeaseLost => {}
                    TermEnd::Failed(why) => {
                        lease.release().await;
                        return Some(why);
                    }
                },
                Election::Follower => {}
                Election::LeaderElsewhere => {
                    return Some(format!("{LEADER_ELSEWHERE}; {RUN_TOGETHER}"));
                }
            }
            self.monitor.set_role(ServerRole::Follower);
            tokio::select! {
                () = &mut shutdown => return None,
                next = self.next_election() => election = next,
            }
        }
    }

    async fn next_election(&self) -> Election {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        self.store.try_to_lead().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot find out whether there is a leader");
            Election::Follower
        })
    }

    async fn lead(&self, lease: &LeaderLease, shutdown: impl Future<Output = ()>) -> TermEnd {
        tracing::info!("this server is the leader");
        tokio::pin!(shutdown);
        // The controllers find their objects by the index.
        if let Err(error) = self.store.complete_index().await {
            tracing::warn!(%error, "the controllers are not started");
            return TermEnd::NotStarted;
        }
        let store = Arc::new(self.store.fenced_by(lease));
        // Without a database or a leader, no worker could renew its lease. Controllers would give its attempts up.
        let extended = until_extended(|| store.extend_worker_leases(self.worker_lease));
        let ended = tokio::select! {
            () = extended => None,
            () = lease.renew_until_lost() => Some(TermEnd::LeaseLost),
            () = shutdown.as_mut() => Some(TermEnd::Shutdown),
        };
        if let Some(end) = ended {
            return end;
        }
        let plane = Arc::new(plane_with(&self.context, store, self.worker_lease));
        self.monitor.set_role(ServerRole::Leader);
        let retention = Retention::new(self.keep, self.keep_audit);
        let controllers = control(Arc::clone(&plane), retention, self.monitor.clone());
        let mut controllers = tokio::spawn(controllers);
        let collector = self.collector.clone();
        let traces = collector.map(|to| tokio::spawn(send_traces(Arc::clone(&plane), to)));
        let results = tokio::spawn(leave_results(self.context.clone()));
        let end = term_end(&mut controllers, lease.renew_until_lost(), shutdown).await;
        // Controllers that ended on their own were awaited already.
        if !controllers.is_finished() {
            controllers.abort();
            let _ = controllers.await;
        }
        if let Some(traces) = traces {
            traces.abort();
        }
        results.abort();
        plane.world.abort_jobs();
        match &end {
            TermEnd::Shutdown | TermEnd::NotStarted => {}
            TermEnd::LeaseLost => tracing::warn!("the lease is lost; the controllers are stopped"),
            TermEnd::Failed(why) => tracing::error!(why, "the controllers stopped"),
        }
        end
    }
}

/// Extends the leases of workers, and tries again until that succeeds.
async fn until_extended<E: Display, F: Future<Output = Result<(), E>>>(extend: impl Fn() -> F) {
    while let Err(error) = extend().await {
        tracing::warn!(%error, "the leases of workers could not be extended");
        tokio::time::sleep(RENEWAL_INTERVAL).await;
    }
}

/// Waits for a shutdown, the loss of the lease, or the end of the controllers: a server must not continue without them.
async fn term_end(
    controllers: &mut JoinHandle<()>,
    lost: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) -> TermEnd {
    tokio::select! {
        () = shutdown => TermEnd::Shutdown,
        () = lost => TermEnd::LeaseLost,
        done = controllers => {
            let why = done.err().map_or_else(|| "they ended".to_owned(), |error| error.to_string());
            TermEnd::Failed(format!("the controllers stopped: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::{TermEnd, term_end, until_extended};

    #[tokio::test]
    async fn controllers_wait_until_the_leases_are_extended() {
        let failures = Cell::new(1);
        until_extended(|| {
            let left = failures.get();
            failures.set(left - 1);
            ready(if left > 0 { Err("the database is away") } else { Ok(()) })
        })
        .await;
        assert_eq!(failures.get(), -1);
    }

    #[tokio::test]
    async fn panicking_controller_ends_the_server_with_a_reason() {
        let mut broken = tokio::spawn(async { panic!("a fault of ours") });
        let TermEnd::Failed(reason) = term_end(&mut broken, pending(), pending()).await else {
            panic!("expected a failure")
        };
        assert!(
            reason.contains("the controllers stopped") && reason.contains("panicked"),
            "{reason}"
        );
        let mut controllers = tokio::spawn(pending());
        let end = term_end(&mut controllers, pending(), ready(())).await;
        assert_eq!(end, TermEnd::Shutdown);
        assert_eq!(term_end(&mut controllers, ready(()), pending()).await, TermEnd::LeaseLost);
    }
}
