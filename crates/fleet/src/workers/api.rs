//! What a worker asks of a server: in the same process, or over HTTPS.

use std::fmt::Debug;
use std::pin::Pin;

use thiserror::Error;

use super::protocol::{
    FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError, PollAnswer, PollRequest,
    ProgressAnswer, ProgressReport, RenewRequest, ReportError,
};
use super::records::RegisteredWorker;
use super::version::VersionSkew;

/// Why a request of a worker failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkerError {
    /// The token is unknown, used, expired, or for another pool.
    #[error(
        "the token is unknown, used, expired or for another pool; create another one: bailiwick workers token"
    )]
    JoinRefused,
    /// The credential is unknown or expired.
    #[error("the credential of the worker is unknown or expired; join again with a new token")]
    Unauthorized,
    /// The versions of the two do not work together.
    #[error("{0}")]
    VersionSkew(String),
    #[error(transparent)]
    LeaseLost(#[from] LeaseError),
    /// The request cannot be carried out, now or later.
    #[error("{0}")]
    Refused(String),
    /// The server is at work on it, or on others: the request has to be repeated.
    #[error("{0}")]
    NotReady(String),
    /// The server cannot be reached, or cannot answer now.
    #[error("{0}")]
    Unavailable(String),
}

impl From<VersionSkew> for WorkerError {
    fn from(skew: VersionSkew) -> Self {
        Self::VersionSkew(skew.to_string())
    }
}

impl From<ReportError> for WorkerError {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::LeaseLost(error) => Self::LeaseLost(error),
            ReportError::EventNumber { .. }
            | ReportError::TooManyEvents
            | ReportError::TooLarge
            | ReportError::NotOfACheck
            | ReportError::NotOfAnAttempt => Self::Refused(error.to_string()),
        }
    }
}

/// An answer that is on its way.
pub type WorkerAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, WorkerError>> + Send + 'a>>;

/// A part of something large, or its end.
pub type Chunk<'a> = WorkerAnswer<'a, Option<Vec<u8>>>;

/// Something too large for memory, part by part.
pub trait ByteStream: Send {
    /// The next part; `None` at the end.
    fn next(&mut self) -> Chunk<'_>;
}

/// The workers that have joined.
pub trait WorkerRegistry: Debug + Send + Sync + 'static {
    /// All of them, by name.
    fn registered(&self) -> WorkerAnswer<'_, Vec<RegisteredWorker>>;
}

/// The server, as a worker sees it.
pub trait WorkerApi: Debug + Send + Sync + 'static {
    /// Joins a pool, with a token for one use.
    fn join<'a>(&'a self, token: &'a str, request: JoinRequest) -> WorkerAnswer<'a, JoinAnswer>;

    /// Replaces a credential that is still valid.
    fn renew<'a>(
        &'a self,
        credential: &'a str,
        request: RenewRequest,
    ) -> WorkerAnswer<'a, JoinAnswer>;

    /// Claims an attempt; waits for one if there is none.
    fn poll<'a>(
        &'a self,
        credential: &'a str,
        request: PollRequest,
    ) -> WorkerAnswer<'a, PollAnswer>;

    /// The commits of an attempt as a git bundle, without those that the worker `has`. It is not ready at once where
    /// they have to be packed first.
    fn repository<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        has: &'a [String],
    ) -> WorkerAnswer<'a, Box<dyn ByteStream>>;

    /// Reports progress, and keeps the lease.
    fn report<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        report: ProgressReport,
    ) -> WorkerAnswer<'a, ProgressAnswer>;

    /// Sends the work of an attempt, as a git bundle.
    fn send_work<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        bundle: Vec<u8>,
    ) -> WorkerAnswer<'a, ()>;

    /// Reports the end of an attempt, and gives the lease back.
    fn finish<'a>(
        &'a self,
        credential: &'a str,
        lease: &'a Lease,
        finish: FinishReport,
    ) -> WorkerAnswer<'a, ()>;
}

/// The server, as its HTTP API sees it.
pub trait WorkerServer: WorkerApi {
    /// Fails if a credential is not valid. The HTTP API asks before it reads what a request says.
    fn authenticate<'a>(&'a self, credential: &'a str) -> WorkerAnswer<'a, ()>;
}
