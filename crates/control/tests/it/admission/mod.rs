//! Admission: what is frozen, reviewed, refused, compiled.

mod admit;
mod binding_conditions;
mod compile;
mod faults;
mod properties;
mod review;
mod run_conditions;
mod snapshot;
mod stack_conditions;
mod validations;
pub(crate) mod world;
