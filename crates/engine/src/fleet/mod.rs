//! The control plane on this machine: adapters for attempts and for the outside world, connected with its
//! store.
//!
//! ```text
//! engine       attempts as Bailiwick runs, each with its own supervisor process
//! children     what their agents have started through us
//! remote       attempts on workers: queued, followed, and their work checked here
//! rebasing     their work on another commit, checked there
//! world        repositories, forges and agent programs, as they are
//! servers      MCP servers, asked for their tools and remembered for a while
//! workspaces   worktrees, and the git that works on them
//! ```

mod children;
mod code_owners;
pub mod engine;
mod rebasing;
pub mod remote;
pub mod servers;
pub mod workspaces;
pub mod world;

use std::sync::Arc;

use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_store::Store;

use remote::FleetEngine;
use world::LocalWorld;

use crate::context::Context;

/// The control plane of this machine.
pub type LocalPlane = ControlPlane<Store, FleetEngine, LocalWorld>;

/// How long a worker may be silent before another one can have its attempts, in milliseconds.
pub const WORKER_LEASE: u64 = 60_000;

/// The control plane over the store that this context names.
pub fn plane(context: &Context, store: Arc<Store>) -> LocalPlane {
    plane_with(context, store, WORKER_LEASE)
}

/// The same with another time for silent workers.
pub fn plane_with(context: &Context, store: Arc<Store>, worker_lease: u64) -> LocalPlane {
    ControlPlane::new(
        Arc::clone(&store),
        Arc::new(FleetEngine::new(context.clone(), Arc::clone(&store), worker_lease)),
        Arc::new(LocalWorld::new(context.clone(), Arc::clone(&store))),
    )
}
