//! Adapters: launch plans, output readers, and whether the gate stops the real agent CLIs.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test helpers panic on failure"
)]

mod behaviour;
mod broken_gates;
mod front;
mod held;
mod manifests;
mod plans;
mod probes;
mod resumed;
mod scripts;
mod servers;
mod skills;
mod stage;
mod streams;
mod sub_agents;
mod told;
