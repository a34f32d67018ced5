//! Real programs, a real kernel and real cargo, against what this crate promises; one test program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod bench;
mod lab;
mod sandbox_basics;
mod tests_told_apart;
