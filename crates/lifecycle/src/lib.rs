//! The rules of one agent's life: brief, spawn, supervision, verification, landing, delegation.
//!
//! No I/O: trees, time, random numbers and facts are arguments, and steps are performed through the [`ports`].

pub mod brief;
mod check_result;
pub mod commit_subject;
pub mod delegation;
pub mod executor;
pub mod landing;
pub mod policy;
pub mod ports;
pub mod prepare;
pub mod respawn;
pub mod spawn;
pub mod supervision;
pub mod verification;

pub use prepare::AgentInvocation;
