//! Briefs and plans, and the executor over ports that fail; one test program.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

mod brief;
mod brief_parameters;
mod delegation_budget;
mod executor;
mod failing_world;
mod foreign_rights;
mod invocation;
mod kit_in_memory;
mod request;
mod spawn_plan;
mod verification;
