//! What next? Briefs and plans, worked out purely; ports; the executor that carries plans out.
//!
//! No I/O of its own: trees, time, random numbers and facts come in as arguments, and steps go
//! out through the [`ports`].

pub mod admission;
pub mod brief;
pub mod bundle;
pub mod commit_subject;
pub mod delegation;
pub mod dispatch;
pub mod executor;
pub mod explaining;
pub mod landing;
pub mod policy;
pub mod ports;
pub mod prepare;
pub mod resources;
pub mod respawn;
pub mod spawn;
pub mod subagents;
pub mod supervision;
pub mod triggers;
pub mod verification;
pub mod workspaces;
pub mod write_back;

pub use prepare::AgentInvocation;
