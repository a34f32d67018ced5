//! What is seen of a tree before and after: enough that no change goes unnoticed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file, a link or anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    mode: u32,
    contents: Vec<u8>,
    /// Which file it is, and when anything about it was last changed.
    touched: (u64, i64, i64),
}

/// Everything below a directory but directories, by path from there.
pub(super) type Tree = BTreeMap<PathBuf, Entry>;

/// Looks at everything below a directory whose path is wanted.
pub(super) fn look(root: &Path, wanted: &dyn Fn(&Path) -> bool) -> Tree {
    let mut tree = Tree::new();
    descend(root, Path::new(""), wanted, &mut tree);
    tree
}

fn descend(root: &Path, below: &Path, wanted: &dyn Fn(&Path) -> bool, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            descend(root, &path, wanted, tree);
        } else if wanted(&path) {
            let file = root.join(&path);
            let contents = match found.is_symlink() {
                true => fs::read_link(&file).unwrap().into_os_string().into_encoded_bytes(),
                false if found.is_file() => fs::read(&file).unwrap_or_default(),
                false => Vec::new(),
            };
            let touched = (found.ino(), found.ctime(), found.ctime_nsec());
            let mode = found.permissions().mode();
            tree.insert(path, Entry { mode, contents, touched });
        }
    }
}

/// The paths whose contents, mode or kind are no longer what they were.
pub(super) fn changed(before: &Tree, after: &Tree) -> Vec<PathBuf> {
    differing(before, after, |one, other| one.mode == other.mode && one.contents == other.contents)
}

/// The paths to which anything was done at all, even if it was undone.
pub(super) fn touched(before: &Tree, after: &Tree) -> Vec<PathBuf> {
    differing(before, after, |one, other| one == other)
}

fn differing(before: &Tree, after: &Tree, same: impl Fn(&Entry, &Entry) -> bool) -> Vec<PathBuf> {
    let gone = before
        .iter()
        .filter(|(path, entry)| after.get(*path).is_none_or(|other| !same(entry, other)));
    let new = after.keys().filter(|path| !before.contains_key(*path));
    gone.map(|(path, _)| path).chain(new).cloned().collect()
}
