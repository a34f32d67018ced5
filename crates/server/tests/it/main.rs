//! Tests of the server over TCP, with the in-memory store.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod access;
mod access_reports;
mod actions;
mod apply;
mod client;
mod connections;
mod local_runs;
mod logs;
mod memory;
mod metrics;
mod objects;
mod openapi;
mod route_coverage;
mod routes;
mod saved_filters;
mod scopes;
mod scripted_fleet;
mod secrets;
mod shutdown;
mod sign_in;
mod streams;
mod streams_under_load;
mod test_server;
mod test_store;
mod tokens;
mod webhooks;
mod workers;
