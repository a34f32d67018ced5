//! The protocol in an issue: written values are read back, and the text of others has no effect.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "test helpers panic on failure")]

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
