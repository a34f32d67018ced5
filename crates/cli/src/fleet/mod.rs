//! The control plane on this machine: what carries its attempts out, what it sees of the world, and how
//! both are joined with its store.
//!
//! ```text
//! engine   attempts as runs of ours, each held by a process of its own
//! ```

pub mod engine;
