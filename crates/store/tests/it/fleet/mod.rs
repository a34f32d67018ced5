//! The store of resources: against the plain model, against itself in many processes, against kills.

mod bytes;
mod conformance;
mod grouping;
mod kills;
mod objects;
mod processes;
mod secrets;
mod sequences;
mod upkeep;
mod worker;
