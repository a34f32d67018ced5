//! What the words promise, tried on input that nobody thought of.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod dna;
mod overlap;
mod task;
