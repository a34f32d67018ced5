//! Tests of kits: layers, roles, lints, and the kit that is shipped.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod embedded;
mod faults;
mod foreign;
mod fork;
mod kit_layers;
mod lints;
mod manifests;
mod memory;
mod old_names;
mod public_kit;
mod role_graphs;
mod starter;
mod templates;
