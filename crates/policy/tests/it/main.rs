//! The shell reader against real bash.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod bash;
mod differential;
mod grammar;
mod readings;
