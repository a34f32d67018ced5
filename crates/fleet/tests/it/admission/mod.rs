//! Admission: snapshots, reviews, refusals and compiled tasks.

mod admit;
mod arriving;
mod binding_conditions;
mod cluster_access;
mod compile;
mod faults;
mod identity_tokens;
mod names;
mod owners;
mod properties;
mod review;
mod run_conditions;
mod snapshot;
mod stack_conditions;
mod validations;
mod whose;
pub(crate) mod world;
