//! The state of a tree before and after, with enough detail to detect every change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file, a symlink or another entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    mode: u32,
    contents: Vec<u8>,
    /// Its inode and the time of its last change.
    identity: (u64, i64, i64),
}

/// All entries below a directory except directories, by relative path.
pub(super) type Tree = BTreeMap<PathBuf, Entry>;

/// Reads all entries below a directory whose path is `wanted`.
pub(super) fn read_tree(root: &Path, wanted: &dyn Fn(&Path) -> bool) -> Tree {
    let mut tree = Tree::new();
    read_directory(root, Path::new(""), wanted, &mut tree);
    tree
}

fn read_directory(root: &Path, below: &Path, wanted: &dyn Fn(&Path) -> bool, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            read_directory(root, &path, wanted, tree);
        } else if wanted(&path) {
            let file = root.join(&path);
            let contents = match found.is_symlink() {
                true => fs::read_link(&file).unwrap().into_os_string().into_encoded_bytes(),
                false if found.is_file() => fs::read(&file).unwrap_or_default(),
                false => Vec::new(),
            };
            let identity = (found.ino(), found.ctime(), found.ctime_nsec());
            let mode = found.permissions().mode();
            tree.insert(path, Entry { mode, contents, identity });
        }
    }
}

/// The paths whose contents, mode or kind differ.
pub(super) fn changed_paths(before: &Tree, after: &Tree) -> Vec<PathBuf> {
    differing_paths(before, after, |one, other| {
        one.mode == other.mode && one.contents == other.contents
    })
}

/// The paths that were changed at all, even if the change was reverted.
pub(super) fn touched_paths(before: &Tree, after: &Tree) -> Vec<PathBuf> {
    differing_paths(before, after, |one, other| one == other)
}

fn differing_paths(
    before: &Tree,
    after: &Tree,
    is_same: impl Fn(&Entry, &Entry) -> bool,
) -> Vec<PathBuf> {
    let changed_or_deleted = before
        .iter()
        .filter(|(path, entry)| after.get(*path).is_none_or(|other| !is_same(entry, other)));
    let created = after.keys().filter(|path| !before.contains_key(*path));
    changed_or_deleted.map(|(path, _)| path).chain(created).cloned().collect()
}
