//! The objects of a tree's repository are not in the tree, but in the repository that it was made from, which its
//! `alternates` name.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::plain;

/// The maximum size of a valid alternates file.
const MAX_SIZE: u64 = 1024 * 1024;
/// How often one directory of objects may lead to another; git itself follows as many.
const DEPTH: usize = 5;

/// The directories of objects that a fresh tree names, and those that they name. To be read before
/// anything is run that could write others there.
pub(super) fn observe(tree: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut next = alternates(tree, Path::new(".git/objects/info/alternates"));
    for _ in 0..DEPTH {
        let more: Vec<PathBuf> = next
            .into_iter()
            .filter(|place| place.is_absolute() && is_objects(place) && !found.contains(place))
            .collect();
        next =
            more.iter().flat_map(|place| alternates(place, Path::new("info/alternates"))).collect();
        found.extend(more);
    }
    // Directories within others and within the system are visible already.
    let all = found.clone();
    found.retain(|place| {
        let within = |other: &PathBuf| place != other && place.starts_with(other);
        !all.iter().any(within) && !crate::toolchain::in_system(place)
    });
    found
}

/// Git's own directories of objects have this; a home or a root has not.
fn is_objects(place: &Path) -> bool {
    let plain = |name: &str| fs::symlink_metadata(place.join(name)).is_ok_and(|data| data.is_dir());
    plain("pack") || plain("info")
}

fn alternates(root: &Path, file: &Path) -> Vec<PathBuf> {
    let text = plain::read(root, file, MAX_SIZE).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.first() == Some(&b'/'));
    lines.map(|line| PathBuf::from(OsString::from_vec(line.to_vec()))).collect()
}
