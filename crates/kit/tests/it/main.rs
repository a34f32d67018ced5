//! What a kit promises: its layers, its roles, its lints, and the kit that is shipped.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
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
