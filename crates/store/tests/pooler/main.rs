//! The same suites as on PostgreSQL, through a real PgBouncer that gives each transaction another connection.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

#[path = "../it/attempts.rs"]
mod attempts;
#[path = "../it/claims.rs"]
mod claims;
#[path = "../it/claims_race.rs"]
mod claims_race;
#[path = "../it/concurrency.rs"]
mod concurrency;
mod connection;
#[path = "../postgres/fleet.rs"]
mod fleet;
#[path = "../postgres/leader_election.rs"]
mod leader_election;
mod pooler;
#[path = "../it/rows.rs"]
mod rows;
#[path = "../it/run_pages.rs"]
mod run_pages;
#[path = "../postgres/several_writers.rs"]
mod several_writers;
#[path = "../postgres/test_database.rs"]
mod test_database;
#[path = "../it/transitions.rs"]
mod transitions;
