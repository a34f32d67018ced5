//! The real agent CLIs, run against a scripted model.

mod gated;
mod stage;
