//! Runs and their ledger, and the resources of the control plane, on SQL.
//!
//! One set of queries for SQLite and PostgreSQL (times as BIGINT, JSON as TEXT; places are `$1`, but `?` where
//! many rows are written at once, which PostgreSQL wants numbered). What is
//! acknowledged is durable: SQLite runs in WAL mode with full synchronisation.

mod attempts;
mod claims;
mod delegates;
mod fleet;
mod ledger;
mod location;
mod names;
mod open;
mod runs;

pub use ledger::{Cost, Event};
pub use location::Location;
pub use open::Store;
