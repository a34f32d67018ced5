//! Tests of the test kit itself: the corpus is complete, and the real agent CLIs run against
//! a scripted model.

mod broken_gates;
mod corpus;
mod forge;
mod gated;
mod payloads;
mod runs;
mod scripted;
mod stage;
mod sub_agents;
