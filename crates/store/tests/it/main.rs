//! The store against plain models, in one test program.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod attempts;
mod claims;
mod claims_race;
mod concurrency;
mod fleet;
mod ledger_in_a_file;
mod lineage;
mod opening;
mod order;
mod portable;
mod specs;
mod transitions;
