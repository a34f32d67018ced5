//! One Kubernetes Job for each attempt: what it is, and what became of it. All of it is pure.
//!
//! ```text
//!  name       the names and labels of the objects of an attempt
//!  namespace  where the Jobs of a pool are, and why they are not
//!  job        the Job, with the worker and its supervisor inside
//!  grants     the identity of its pod, and the values that are mounted for its worker
//!  objects    the secret with its token, and what its pod may reach
//!  quota      which quota of the namespace refuses a Job
//!  outcome    what is wrong with a Job, and whether another one may do better
//!  plan       what the operator does next about an attempt
//!  pause      how long it waits for the next Job of an attempt
//! ```

mod grants;
mod job;
mod name;
mod namespace;
mod objects;
mod outcome;
mod pause;
mod plan;
mod quota;

pub use job::{AttemptJob, Cluster, deadline_seconds, job};
pub use name::{ATTEMPT, COMPONENT, TOKEN_KEY, attempt_and_number, job_name, selector};
pub use namespace::{JobPool, NamespaceError, namespace, require_identity};
pub use objects::{network_policy, token_secret};
pub use outcome::{JobStanding, Next, Problem, Seen, overdue, refusal, standing};
pub use pause::{LastEnd, has_ended, is_due, last_end};
pub use plan::{MAX_JOBS, OpenAttempt, Step, plan, without_job};
pub use quota::exceeded;
