//! The shell reader against real bash, and the readers of calls against what real CLIs say.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a helper of a test fails the test, and starts real programs"
)]

mod above;
mod answers;
mod bash;
mod bombs;
mod dialects;
mod differential;
mod everyday;
mod everyday_commands;
mod globs;
mod grammar;
mod inline;
mod inline_examples;
mod limits;
mod readings;
mod servers;
mod writes;
mod writes_differential;
mod writes_grammar;
