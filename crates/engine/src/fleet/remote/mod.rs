//! Attempts on other machines, as the server sees them.
//!
//! ```text
//!  engine     runs attempts here or queues them for workers, as their pool says
//!  launching  what an attempt is queued with; what cannot run on a worker is refused
//!  waiting    why no worker has begun an attempt
//!  checking   the work of a worker is checked here, as that of any other agent
//!  receiving  its commits are put into a worktree here, or refused
//!  service    answers the requests of workers
//! ```

mod checking;
mod engine;
mod launching;
mod receiving;
mod service;
mod waiting;

pub use engine::FleetEngine;
pub use service::WorkerService;

/// The label that a worker has for each agent program that is installed there.
const PROGRAM_LABEL: &str = "bailiwick.dev/program-";
/// The label with the level of its sandbox.
const SANDBOX_LABEL: &str = "bailiwick.dev/sandbox";
/// Labels with this prefix are ours.
pub const OWN_LABELS: &str = "bailiwick.dev/";
