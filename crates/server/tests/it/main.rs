//! The server as its clients see it: over TCP, against the plain model of a store.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on says so by stopping"
)]

mod access;
mod actions;
mod apply;
mod client;
mod connections;
mod covered;
mod description;
mod figures;
mod logs;
mod objects;
mod place;
mod routes;
mod scopes;
mod scripted;
mod secrets;
mod shutdown;
mod streams;
mod streams_under_load;
mod telling;
mod tokens;
mod webhooks;
