//! The last part of a path, as text.

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    // Paths are short: going through the bytes is quicker than a search that is set up first.
    let slash = path.bytes().rposition(|byte| byte == b'/');
    slash.and_then(|at| path.get(at + 1..)).unwrap_or(path)
}
