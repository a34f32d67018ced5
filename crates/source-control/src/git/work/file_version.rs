//! Which version of a file a checkout has while it is updated from one commit to another.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use super::worktree_paths::WorktreePaths;
use crate::git::command::Git;

/// An update of a checkout between two commits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transition<'a> {
    /// The commit before the update.
    pub(super) old: &'a str,
    /// The commit after the update.
    pub(super) new: &'a str,
}

/// The version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileVersion {
    /// As in the old commit.
    Old,
    /// As in the new commit, or the beginning of that if git was killed while it wrote.
    New,
    /// Missing: git removes a file before it writes the new version.
    Missing,
    /// Written by somebody else.
    Foreign,
}

/// Compares a file with both commits. `git` runs in the checkout, without filters.
pub(super) fn observe(
    git: &Git,
    checkout: &WorktreePaths,
    path: &[u8],
    transition: Transition<'_>,
) -> FileVersion {
    let full_path = checkout.worktree.join(OsStr::from_bytes(path));
    let Ok(found) = fs::symlink_metadata(&full_path) else { return FileVersion::Missing };
    let read = if found.is_symlink() {
        fs::read_link(&full_path).map(|target| target.as_os_str().as_bytes().to_owned())
    } else {
        fs::read(&full_path)
    };
    let Ok(bytes) = read else { return FileVersion::Foreign };
    // As git would write it here: attributes can ask for other line endings.
    let written = |commit: &str| {
        let object = [commit.as_bytes(), b":", path].concat();
        let object = OsStr::from_bytes(&object);
        git.run([OsStr::new("cat-file"), OsStr::new("--filters"), object]).ok()
    };
    if written(transition.old).is_some_and(|text| text == bytes) {
        FileVersion::Old
    } else if written(transition.new).is_some_and(|text| text.starts_with(&bytes)) {
        FileVersion::New
    } else {
        FileVersion::Foreign
    }
}
