//! Requests about an attempt: repeated while the server is away, and with a lease that is kept meanwhile.

use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{
    FinishReport, Lease, ProgressAnswer, ProgressReport, WorkerAnswer, WorkerError,
};
use bailiwick_model::backoff::Backoff;

use super::attempts::{Attempts, Dropped};

/// How often there is a report without news, at least.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a worker waits when the server is away.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Several reports can be lost before the lease is.
pub(super) fn report_interval(lease_millis: u64) -> Duration {
    Duration::from_millis(lease_millis / 6).min(MAX_REPORT_INTERVAL)
}

impl Attempts {
    /// Does what can take long, and repeats a report meanwhile, so that the lease is kept.
    pub(super) async fn with_lease<T>(
        &self,
        (lease, lease_millis): (&Lease, u64),
        report: &ProgressReport,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.report_later((lease, lease_millis), report) => {}
            }
        }
    }

    async fn report_later(&self, (lease, lease_millis): (&Lease, u64), report: &ProgressReport) {
        tokio::time::sleep(report_interval(lease_millis)).await;
        let secret = self.credentials.secret();
        // A lost lease ends the work by itself: nothing more can be sent.
        let _ = self.api.report(&secret, lease, report.clone()).await;
    }

    /// Reports, and repeats that while the server is away: the agent works on meanwhile.
    pub(super) async fn report(
        &self,
        lease: &Lease,
        mut report: ProgressReport,
    ) -> Result<ProgressAnswer, Dropped> {
        report.limit();
        let request = || -> WorkerAnswer<'_, ProgressAnswer> {
            let (secret, report) = (self.credentials.secret(), report.clone());
            Box::pin(async move { self.api.report(&secret, lease, report).await })
        };
        self.retry(request).await.map_err(|error| self.dropped(&error))
    }

    fn dropped(&self, error: &WorkerError) -> Dropped {
        self.context.notices.note(error);
        match error {
            WorkerError::Unauthorized => Dropped::Unauthorized,
            WorkerError::JoinRefused
            | WorkerError::VersionSkew(_)
            | WorkerError::LeaseLost(_)
            | WorkerError::Refused(_)
            | WorkerError::NotReady(_)
            | WorkerError::Unavailable(_) => Dropped::NotWanted,
        }
    }

    /// Repeats a request while the server is away, and for a while if it does not know the credential: a server that was
    /// away for long extends the credentials of workers with attempts when it is back, and this worker renews its own.
    pub(super) async fn retry<'a, T>(
        &self,
        request: impl Fn() -> WorkerAnswer<'a, T> + Send,
    ) -> Result<T, WorkerError> {
        let mut failures = 0_u32;
        let mut unauthorized_since = None;
        loop {
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(WorkerError::Unavailable(_) | WorkerError::NotReady(_)) => {
                    unauthorized_since = None;
                }
                Err(error @ WorkerError::Unauthorized) => {
                    let since = unauthorized_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.follow_limits.unauthorized {
                        return Err(error);
                    }
                }
                Err(
                    error @ (WorkerError::JoinRefused
                    | WorkerError::VersionSkew(_)
                    | WorkerError::LeaseLost(_)
                    | WorkerError::Refused(_)),
                ) => return Err(error),
            }
            tokio::time::sleep(BACKOFF.delay(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    pub(super) async fn end(
        &self,
        lease: &Lease,
        bundle: Vec<u8>,
        finish: FinishReport,
    ) -> Result<(), Dropped> {
        let finish = finish.limited();
        if !bundle.is_empty() {
            let send = || -> WorkerAnswer<'_, ()> {
                let (secret, bundle) = (self.credentials.secret(), bundle.clone());
                Box::pin(async move { self.api.send_work(&secret, lease, bundle).await })
            };
            self.retry(send).await.map_err(|error| self.dropped(&error))?;
        }
        let report = || -> WorkerAnswer<'_, ()> {
            let (secret, finish) = (self.credentials.secret(), finish.clone());
            Box::pin(async move { self.api.finish(&secret, lease, finish).await })
        };
        self.retry(report).await.map_err(|error| self.dropped(&error))
    }
}
