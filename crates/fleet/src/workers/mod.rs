//! Workers: programs on other machines that run the attempts of a pool.
//!
//! ```text
//!  api          what a worker asks of a server
//!  conditions   what of a worker decides whether it takes attempts
//!  event_limits how many events a report has, and how large they are
//!  protocol     what a worker and a server send each other
//!  records      what the server knows of workers and of the attempts that wait for them
//!  version      which versions of the two work together
//! ```

mod api;
mod conditions;
mod event_limits;
mod protocol;
mod records;
mod version;

pub use api::{
    ByteStream, Chunk, WorkerAnswer, WorkerApi, WorkerError, WorkerRegistry, WorkerServer,
};
pub use conditions::{WorkerCondition, WorkerConditionType};
pub use event_limits::{
    MAX_ATTEMPT_EVENT_BYTES, MAX_REPORT_BYTES, MAX_REPORT_EVENTS, sendable_events,
};
pub use protocol::{
    AssignedWork, Assignment, AttemptSummary, CheckEvidence, FinishReport, JoinAnswer, JoinRequest,
    Lease, LeaseError, MAX_EVIDENCE_BYTES, MAX_WORK_BYTES, PollAnswer, PollRequest, ProgressAnswer,
    ProgressReport, ProgressState, RemoteCheck, RemoteLaunch, RenewRequest, ReportError, WorkClaim,
    WorkerCapabilities,
};
pub use records::{
    ATTEMPT_LABEL, CORES_LABEL, ClaimedAttempt, JobRecord, NewWorker, NewWorkerToken,
    QueuedAttempt, QueuedCheck, QueuedState, RegisteredWorker, WorkerAttempt, WorkerRecord,
    WorkerState, satisfies,
};
pub use version::{VersionSkew, check_version};
