//! The same suites as on SQLite, on a real PostgreSQL, and what only a server can do: crash and come back.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

#[path = "../it/attempts.rs"]
mod attempts;
mod backup;
#[path = "../it/claims.rs"]
mod claims;
#[path = "../it/claims_race.rs"]
mod claims_race;
#[path = "../it/concurrency.rs"]
mod concurrency;
mod connection;
mod copying;
#[path = "../it/dispatched_runs.rs"]
mod dispatched_runs;
mod fleet;
mod leader_election;
#[path = "../it/lineage.rs"]
mod lineage;
mod migrating;
#[path = "../it/order.rs"]
mod order;
#[path = "../it/rows.rs"]
mod rows;
#[path = "../it/run_pages.rs"]
mod run_pages;
mod server_faults;
mod several_writers;
#[path = "../it/specs.rs"]
mod specs;
mod test_database;
mod tls;
#[path = "../it/transitions.rs"]
mod transitions;
#[path = "../it/worker_queue.rs"]
mod worker_queue;
#[path = "../it/worker_returns.rs"]
mod worker_returns;
#[path = "../it/workers.rs"]
mod workers;
