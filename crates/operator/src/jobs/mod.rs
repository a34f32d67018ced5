//! Runs the attempts of pools with `runsOn: jobs`, each in a Kubernetes Job.
//!
//! ```text
//!  installation  whose database it is
//!  queue         the attempts that wait, and what is recorded of their Jobs: in the database of the server
//!  cluster       the requests to the API server
//!  controller    compares the two, again and again; what it does is decided in `kubernetes::jobs`
//!  orphans       the Jobs that run for nothing
//!  retries       what failed, and when it is tried again
//! ```
//!
//! Nothing that matters is remembered between two rounds. A Job's name follows from its attempt and its number, so an operator that is
//! killed, or two of them, make each Job once. What is recorded names the number that was read, so that of two operators
//! one is too late.

mod cluster;
mod controller;
mod installation;
mod orphans;
mod queue;
mod retries;

pub use cluster::{ClusterError, JobCluster, Listed};
pub use controller::{Failure, JobController, RoundError};
pub use installation::{INSTALLATION_NAME, InstallationError, claim_installation};
pub use queue::{AttemptQueue, OpenJobs, PoolState, QueueError, QueuedJob, StoreQueue};
pub use retries::Subject;
