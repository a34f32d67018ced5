//! The real agent CLIs, run against a scripted model.

mod broken_gates;
mod gated;
mod payloads;
mod runs;
mod scripted;
mod stage;
mod sub_agents;
