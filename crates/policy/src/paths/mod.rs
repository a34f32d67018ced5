//! Paths: where they lead, and whether a list of globs has them.

mod places;

pub use bailiwick_model::globs::Globs;
pub(crate) use places::want;
pub use places::{Place, Spot, harmless_device, join, spots};
