//! Forges: reading from them and writing back to them.
//!
//! ```text
//! client          HTTP with one credential to one host: pages, limits, timeouts, errors
//! marker          finds a comment, review or release again by the key it was written with
//! gitea, github   the two APIs; common: what they share; wire: their JSON
//! local           a repository on this machine, without a forge
//! checks          CI runs that ended since the last poll
//! push, fetch     git transfers
//! ```
//!
//! Nothing is written twice for one key: an existing object is looked up first. After `Unavailable`, the
//! caller can try again with the same key.

mod checks;
mod client;
mod common;
mod fetch;
mod gitea;
mod github;
mod local;
mod marker;
mod open;
mod push;
mod token;
mod wire;

pub use fetch::fetch;
pub use gitea::Gitea;
pub use github::Github;
pub use local::Local;
pub use open::{AnyForge, open};
pub use token::Token;

pub(crate) use client::is_local;
