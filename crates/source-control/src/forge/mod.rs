//! Forges: what is read from them and written back to them.
//!
//! ```text
//! client   HTTP with one credential to one host; pages, sizes, time-outs, what an answer means
//! marker   how a thing that was written is found again by its key
//! gitea, github   the two languages           local   a repository with nothing around it
//! checks   what ended since somebody last asked
//! ```
//!
//! Nothing is written twice for one key: it is looked for first. Whoever gets `Unavailable` asks
//! again with the same key.

mod checks;
mod client;
mod common;
mod fetching;
mod gitea;
mod github;
mod local;
mod marker;
mod open;
mod pushing;
mod token;
mod wire;

pub use fetching::fetch;
pub use gitea::Gitea;
pub use github::Github;
pub use local::Local;
pub use open::{AnyForge, open};
pub use token::Token;

pub(crate) use client::is_local;
