//! The store compared with plain models.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

mod attempts;
mod claims;
mod claims_race;
mod concurrency;
mod dispatched_runs;
mod fleet;
mod forgetting;
mod lineage;
mod opening;
mod order;
mod plans;
mod rows;
mod run_pages;
mod specs;
mod test_database;
mod transitions;
mod worker_queue;
mod worker_returns;
mod workers;
