//! Workers: programs on other machines that run the attempts of a pool.
//!
//! ```text
//!  api        what a worker asks of a server
//!  protocol   what a worker and a server send each other
//!  records    what the server knows of workers and of the attempts that wait for them
//!  version    which versions of the two work together
//! ```

mod api;
mod protocol;
mod records;
mod version;

pub use api::{WorkerAnswer, WorkerApi, WorkerError};
pub use protocol::{
    Assignment, AttemptSummary, FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError,
    MAX_WORK_BYTES, PollAnswer, PollRequest, ProgressAnswer, ProgressReport, ProgressState,
    RemoteLaunch, ReportError, WorkClaim, WorkerCapabilities,
};
pub use records::{
    ATTEMPT_LABEL, ClaimedAttempt, JobRecord, NewWorker, NewWorkerToken, QueuedAttempt,
    QueuedState, WorkerAttempt, WorkerRecord, WorkerState, satisfies,
};
pub use version::{VersionSkew, check_version};
