//! The shell reader compared with real bash, and the readers of calls with payloads of real CLIs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "test helpers panic on failure and start real programs"
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
