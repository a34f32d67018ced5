//! The control plane over resources: triggers, admission, dispatch, write-back.
//!
//! No I/O of its own: it asks a store, forges and an engine through the [`ports`]. It knows nothing of
//! how one agent runs.

pub mod admission;
pub mod bundle;
pub mod controllers;
pub mod explanation;
pub mod ports;
pub mod resources;
pub mod subagents;
pub mod triggers;
pub mod workspaces;
pub mod write_back;
