//! Attempts on other machines, as the server sees them.
//!
//! ```text
//!  engine     runs attempts here or queues them for workers, as their pool says
//!  launching  what an attempt is queued with; what cannot run on a worker is refused
//!  waiting    why no worker has begun an attempt
//!  evidence   commands and tests of checks that workers run: what is queued, and which outcomes count
//!  outcomes   whether an outcome answers its job
//!  checking   the work of a worker is checked here, as that of any other agent
//!  receiving  its commits are put into a worktree here, or refused
//!  service    answers the requests of workers
//!  packs      the commits that they fetch, packed into files
//! ```

mod checking;
mod engine;
mod evidence;
mod launching;
mod outcomes;
mod packs;
mod receiving;
#[cfg(test)]
mod renewal_tests;
mod service;
mod waiting;

use bailiwick_model::Sha256Hex;

pub use engine::FleetEngine;
pub use service::WorkerService;

/// The label that a worker has for each agent program that is installed there.
const PROGRAM_LABEL: &str = "bailiwick.dev/program-";
/// The label with the level of its sandbox.
const SANDBOX_LABEL: &str = "bailiwick.dev/sandbox";
/// The label of a worker that can run commands and tests of checks.
const CHECKS_LABEL: &str = "bailiwick.dev/checks";
/// Labels with this prefix are ours.
pub const OWN_LABELS: &str = "bailiwick.dev/";

/// Identifies a checkout for workers, which are not told where it is.
fn repository_name(checkout: &str) -> String {
    Sha256Hex::of(checkout).prefix(16).to_owned()
}
