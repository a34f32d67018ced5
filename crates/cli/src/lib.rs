//! The `bailiwick` command, and the seed's own binaries on the same code.
//!
//! One command a file under [`commands`]; [`wire`] alone knows every adapter; only this crate
//! prints.

pub mod agent_names;
pub mod agent_state;
pub mod claiming;
pub mod commands;
pub mod context;
pub mod counted;
pub mod database;
pub mod delegating;
pub mod failure;
pub mod fleet;
pub mod hooks;
pub mod kei;
pub mod managed;
pub mod output;
pub mod plumbing;
pub mod policy_file;
pub mod preconditions;
pub mod reference;
pub mod running;
pub mod templates;
pub mod verifying;
pub mod watch;
pub mod wire;

pub use commands::Bailiwick;
