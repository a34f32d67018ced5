//! Adapters: what they plan, what they read, and whether the real agent CLIs are held by it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on says so by stopping"
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
