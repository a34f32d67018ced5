//! The protocol in an issue: what is written is read again, and what others write has no effect.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod claim_snapshots;
mod claims;
mod fake;
mod hostile;
mod limits;
mod migrations;
mod protocol;
mod rebuilt;
mod recovery;
mod round_trips;
mod values;
