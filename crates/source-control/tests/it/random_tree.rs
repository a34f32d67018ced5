//! Random trees of files, with every name that a real file may have.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_testkit::random::Random;

/// Texts by their path.
pub(crate) type Files = BTreeMap<String, String>;

const NAMES: [&str; 18] = [
    "a",
    "b",
    "roles",
    "x.toml",
    "with space",
    " lead",
    "ünïcode",
    "日本",
    "\u{1f600}",
    ".hidden",
    "-dash",
    "*",
    "[x]",
    "back\\slash",
    "quo\"te's",
    "tab\there",
    "new\nline",
    "a -> b",
];

const TEXTS: [&str; 6] =
    ["", "\n", "plain\n", "no end", "größer 日本\n\n\n", "carriage\r\nreturn\0\n"];

pub(crate) fn files(random: &mut Random, count: usize) -> Files {
    let mut files = Files::new();
    for _ in 0..count {
        let depth = 1 + random.below(6);
        let parts: Vec<&str> =
            (0..depth).map(|_| *NAMES.get(random.below(NAMES.len())).unwrap()).collect();
        let path = parts.join("/");
        let text = format!("{}{}", TEXTS.get(random.below(TEXTS.len())).unwrap(), random.below(4));
        let text = if random.once_in(4) { String::new() } else { text };
        let exists = directories(&files).contains(&path)
            || above(&path).iter().any(|parent| files.contains_key(parent));
        if !exists {
            files.insert(path, text);
        }
    }
    files
}

/// The directories that a path is in, the outermost first.
fn above(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(end, _)| path.split_at(end).0.to_owned()).collect()
}

/// All directories that contain the files.
pub(crate) fn directories(files: &Files) -> BTreeSet<String> {
    files.keys().flat_map(|path| above(path)).collect()
}

/// The names right below the root.
pub(crate) fn tops(files: &Files) -> BTreeSet<String> {
    files.keys().filter_map(|path| path.split('/').next()).map(str::to_owned).collect()
}
