//! The control plane on this machine: adapters for attempts and for the outside world, connected with its
//! store.
//!
//! ```text
//! engine       attempts as Bailiwick runs, each held by a process of its own
//! children     what their agents have started through us
//! rebasing     their work on another commit, checked there
//! world        repositories, forges and agent programs, as they are
//! servers      MCP servers, asked for their tools and remembered for a while
//! workspaces   worktrees, and the git that works on them
//! ```

mod children;
mod code_owners;
pub mod engine;
mod rebasing;
pub mod servers;
pub mod workspaces;
pub mod world;

use std::sync::Arc;

use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_store::Store;

use engine::LocalEngine;
use world::LocalWorld;

use crate::context::Context;

/// The control plane of this machine.
pub type LocalPlane = ControlPlane<Store, LocalEngine, LocalWorld>;

/// The control plane over the store that this context names.
pub fn plane(context: &Context, store: Arc<Store>) -> LocalPlane {
    ControlPlane::new(
        Arc::clone(&store),
        Arc::new(LocalEngine::new(context.clone(), Arc::clone(&store))),
        Arc::new(LocalWorld::new(context.clone(), Arc::clone(&store))),
    )
}
