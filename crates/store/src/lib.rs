//! Stores runs, their ledger and the resources of the control plane in an SQL database.
//!
//! The queries work on SQLite and PostgreSQL: times are BIGINT, JSON is TEXT, placeholders are `$1`. Only
//! statements that write many rows use `?`, which PostgreSQL would need numbered. Acknowledged writes are
//! durable: SQLite runs in WAL mode with full synchronisation.

#![expect(missing_docs, reason = "not published: names say what an item is, comments say why")]

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
