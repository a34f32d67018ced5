//! The store of resources: against the plain model, against itself in many processes, against kills.

mod conformance;
mod objects;
mod sequences;
