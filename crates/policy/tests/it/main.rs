//! The shell reader against real bash.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a helper of a test fails the test, and starts real programs"
)]

mod bash;
mod differential;
mod globs;
mod grammar;
mod inline;
mod inline_examples;
mod readings;
mod writes;
mod writes_differential;
mod writes_grammar;
