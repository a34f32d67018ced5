//! Keeps a namespace of a cluster and the control plane in step.
//!
//! ```text
//! API server ──watches──▶ Cache ◀──streams── server of the control plane
//!                           │
//!                         Queue ──▶ Reconciler: plan (pure, in `kubernetes::sync`), then steps
//! ```
//!
//! Everything starts from lists of both sides, so that a restart has nothing to remember: what is not yet as it should
//! be is the work that is left.

mod access_reports;
mod cache;
mod cluster;
mod control_plane;
mod election;
mod own_rights;
mod queue;
mod reconciler;
mod reviews;
mod term;
mod watches;

use std::time::Duration;

pub use cluster::{Cluster, ClusterError};
pub use control_plane::{ControlPlane, FenceError, WriteError};
pub use election::Leadership;
pub use own_rights::{MissingRights, check_own_rights};
pub use reconciler::{Outcome, Reconciler};
pub use reviews::ask;
pub use term::{OperatorError, Settings, run};

/// The name of the Lease.
pub const LEASE_NAME: &str = "bailiwick-operator";
/// Changes of a run are written together if they follow each other this fast.
const RECORD_DEBOUNCE: Duration = Duration::from_secs(1);
const DECLARATION_DEBOUNCE: Duration = Duration::from_millis(100);
/// Everything is compared again this often: runs end to be shown without a message.
const RESYNC_PERIOD: Duration = Duration::from_secs(600);
