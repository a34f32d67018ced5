//! Paths: where they lead, and whether a list of globs has them.

mod globs;
mod places;

pub use globs::Globs;
pub(crate) use places::want;
pub use places::{Place, Spot, harmless_device, join, spots};
