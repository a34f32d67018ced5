//! What a file of a checkout is while the checkout goes from one commit to another.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use super::places::Places;
use crate::git::command::Git;

/// The two commits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'a> {
    /// Where the checkout comes from.
    pub(super) old: &'a str,
    /// Where it goes.
    pub(super) new: &'a str,
}

/// Whose the bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// It is as in the old commit.
    Old,
    /// It is as in the new commit, or a beginning of that: git was killed while it wrote.
    New,
    /// It is not there: git takes a file away before it writes the new one.
    Gone,
    /// Somebody else has written it.
    Foreign,
}

/// Looks at a file. `git` is one of the checkout, with no filter to run.
pub(super) fn observe(git: &Git, checkout: &Places, path: &[u8], way: Way<'_>) -> Content {
    let place = checkout.worktree.join(OsStr::from_bytes(path));
    let Ok(found) = fs::symlink_metadata(&place) else { return Content::Gone };
    let read = if found.is_symlink() {
        fs::read_link(&place).map(|target| target.as_os_str().as_bytes().to_owned())
    } else {
        fs::read(&place)
    };
    let Ok(bytes) = read else { return Content::Foreign };
    // As git would write it here, with the line ends that attributes ask for.
    let written = |commit: &str| {
        let object = [commit.as_bytes(), b":", path].concat();
        let object = OsStr::from_bytes(&object);
        git.run([OsStr::new("cat-file"), OsStr::new("--filters"), object]).ok()
    };
    if written(way.old).is_some_and(|text| text == bytes) {
        Content::Old
    } else if written(way.new).is_some_and(|text| text.starts_with(&bytes)) {
        Content::New
    } else {
        Content::Foreign
    }
}
