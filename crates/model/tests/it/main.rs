//! Property tests and tables of cases for the types of the model.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test helpers panic on failure"
)]

mod dna;
mod overlap;
mod task;
