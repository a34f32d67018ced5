//! The control plane over resources: controllers over triggers, admission and write-back.
//!
//! No I/O: it uses a store, forges and an engine through the [`ports`], and does not know how an agent runs. Modules
//! import each other in one direction:
//!
//! ```text
//!  wildcards, subagents, workspaces, bundle ─▶ admission ─▶ ports ─▶ triggers, resources, write_back ─▶ controllers
//!                                                             ports ─▶ workers, traces
//! ```

pub mod admission;
pub mod bundle;
pub mod controllers;
pub mod explanation;
pub mod poll_cursor;
pub mod ports;
pub mod resources;
pub mod subagents;
pub mod traces;
pub mod triggers;
mod wildcards;
pub mod workers;
pub mod workspaces;
pub mod write_back;
