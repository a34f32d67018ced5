//! How objects of a cluster and objects of the control plane follow each other. Pure: what must be done follows from
//! both sides as they are, so that every step can be repeated, and nothing depends on a message that was missed.
//!
//! ```text
//! declared kinds   cluster ──spec──▶ control plane ──status──▶ cluster
//! recorded kinds   control plane ──object and status──▶ cluster
//! ```

mod copy;
mod declared;
mod event;
mod fence;
mod mark;
mod object;
mod recorded;
mod refusal;
mod status;

use bailiwick_resources::{AnyObject, Author, Kind};
use serde_json::Value;

use crate::crds::{Home, home};

pub use copy::document;
pub use declared::{plan as plan_declared, refused};
pub use event::{Transition, event};
pub use fence::{FENCE_NAME, Fence, FenceLost, Takeover, TakeoverError};
pub use mark::{Mark, NamespaceUid, Origin};
pub use object::ClusterObject;
pub use recorded::{History, Owner, is_kept, kept, owner, plan as plan_recorded};
pub use refusal::{Refusal, SyncReason};
pub use status::AddedCondition;

/// The field manager of everything that the operator writes.
pub const FIELD_MANAGER: &str = "bailiwick-operator";
/// Keeps a declared object until its copy in the control plane is deleted.
pub const FINALIZER: &str = "bailiwick.dev/copy";
/// On a copy in the control plane: the object that it was copied from.
pub const COPIED_FROM: &str = "bailiwick.dev/copied-from";
/// On an object of a cluster: `true` lets it take over an object of the same name in the control plane.
pub const ADOPT: &str = "bailiwick.dev/adopt";
/// On objects that the operator creates.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The type of the operator's own condition.
pub const SYNCED: &str = "Synced";

/// The type of the condition that says whether the API server allows what a binding gives.
pub const ACCESS: &str = "KubernetesAccess";

/// How a kind is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// People declare it in the cluster; the control plane gets a copy.
    Declared,
    /// The control plane records it; the cluster shows it.
    Recorded,
}

/// How a kind is synced; nothing if it is not.
pub fn direction(kind: Kind) -> Option<Direction> {
    let shown =
        matches!(kind, Kind::AgentDispatchRun | Kind::AgentDispatchAttempt | Kind::AgentApproval);
    match (home(kind), kind.author()) {
        (Home::CustomResource, Author::People) => Some(Direction::Declared),
        (Home::CustomResource, Author::ControlPlane) if shown => Some(Direction::Recorded),
        (Home::CustomResource, Author::ControlPlane) | (Home::Kubernetes | Home::Database, _) => {
            None
        }
    }
}

/// The kinds that are synced.
pub fn synced_kinds() -> impl Iterator<Item = (Kind, Direction)> {
    Kind::ALL.iter().filter_map(|kind| Some((*kind, direction(*kind)?)))
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Adds the finalizer.
    AddFinalizer,
    /// Removes the finalizer: nothing of the object is left in the control plane.
    RemoveFinalizer,
    /// Writes the copy in the control plane. Its version is the one that it replaces; 0 if there is none.
    Copy(Box<AnyObject>),
    /// Deletes the copy at this version.
    DeleteCopy {
        /// The version.
        version: u64,
    },
    /// Creates or changes the object in the cluster. The steps after it are about an object that stays as it is.
    ApplyObject(Value),
    /// Deletes the object in the cluster.
    DeleteObject,
    /// Writes the status of the object.
    ApplyStatus(Value),
    /// Records an event at the object.
    Record(Transition),
    /// Waits for the object that owns this one.
    WaitForOwner,
}
