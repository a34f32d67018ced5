//! Stores runs, their ledger and the resources of the control plane in an SQL database.
//!
//! The queries work on SQLite and PostgreSQL: times are BIGINT, JSON is TEXT, placeholders are `$1`. Where the two
//! differ, `sql.rs` has both forms. Acknowledged writes are durable: SQLite runs in WAL mode with full synchronisation.

mod attempts;
mod claims;
mod connections;
mod copying;
mod database_file;
mod delegates;
mod dispatched_runs;
mod fleet;
mod fleet_store;
mod leader_election;
mod ledger;
mod location;
mod names;
mod open;
mod queue_signals;
mod run_pages;
mod runs;
mod schema;
mod sql;
mod workers;

pub use copying::TableRows;
pub use dispatched_runs::{Dispatch, SettledDispatches};
pub use leader_election::{Election, LeaderLease, RENEWAL_INTERVAL};
pub use ledger::{Cost, Event};
pub use location::Location;
pub use open::Store;
pub use queue_signals::QueueSignal;
pub use run_pages::{ClosedRuns, RunPage, RunPageRead, RunPosition};
pub use workers::{CancelOutcome, MAX_CLAIMS, RegisteredWorkers};
