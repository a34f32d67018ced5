//! Paths: where they lead, and whether a list of globs has them.

mod places;

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    // Paths are short: going through the bytes is quicker than a search that is set up first.
    let slash = path.bytes().rposition(|byte| byte == b'/');
    slash.and_then(|at| path.get(at + 1..)).unwrap_or(path)
}

pub use bailiwick_model::globs::Globs;
pub(crate) use places::collect_lookups;
pub use places::{Place, WriteTarget, harmless_device, join, write_targets};
