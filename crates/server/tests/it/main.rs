//! Tests of the server over TCP, with the in-memory store.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod access;
mod actions;
mod apply;
mod client;
mod connections;
mod logs;
mod metrics;
mod objects;
mod openapi;
mod route_coverage;
mod routes;
mod scopes;
mod scripted_fleet;
mod secrets;
mod shutdown;
mod streams;
mod streams_under_load;
mod test_server;
mod test_store;
mod tokens;
mod webhooks;
