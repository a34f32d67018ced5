//! Runs and their ledger, and the resources of the control plane, on SQL.
//!
//! One set of queries for SQLite and PostgreSQL (`$1`, times as BIGINT, JSON as TEXT). What is
//! acknowledged is durable: SQLite runs in WAL mode with full synchronisation.

mod attempts;
mod claims;
mod delegates;
mod fleet;
mod ledger;
mod location;
mod open;
mod runs;

pub use ledger::{Cost, Event};
pub use location::Location;
pub use open::Store;
