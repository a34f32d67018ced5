//! Paths: where they lead, and whether a list of globs has them.

mod places;

pub use bailiwick_model::globs::Globs;
pub(crate) use places::collect_lookups;
pub use places::{Place, WriteTarget, harmless_device, join, write_targets};
