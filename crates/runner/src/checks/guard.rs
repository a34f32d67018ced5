//! Tracked files stay unchanged while checks run: they are mounted read-only, and compared afterwards.
//!
//! With mounts, builds can still create new files beside tracked ones. A mount takes about 15 µs, so in large trees
//! the files are only compared afterwards. Links are never mounted, because the mount would be on their target.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{plain, times};

/// How many files are mounted for a command or a build.
const MAX_MOUNTS: usize = 20_000;
/// How many for each of many tests.
const MAX_MOUNTS_PER_TEST: usize = 4_096;
/// How many changed files a message names.
const MAX_REPORTED_FILES: usize = 10;
/// The attribute with which the kernel marks a directory in a layer that hides what is below it.
const OPAQUE: &str = "user.overlay.opaque";

/// The tracked paths of a tree before checks run.
#[derive(Debug, Default)]
pub(super) struct TreeGuard {
    files: BTreeSet<PathBuf>,
    links: BTreeSet<PathBuf>,
}

/// The kind of a program; it decides how its tree is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramScope {
    /// A command, or a build that others depend on.
    Whole,
    /// One of many tests; its writes are discarded.
    SingleTest,
}

/// Where the writes of a program to its tree are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangedTree {
    /// A layer with nothing but that.
    Layer(PathBuf),
    /// A whole copy.
    Copy(PathBuf),
}

impl TreeGuard {
    /// The files of a tree that is as it was given; git's own are none of them.
    pub(super) fn observe(tree: &Path) -> io::Result<Self> {
        let mut guard = Self::default();
        times::walk(tree, &mut |path, data| {
            if !path.starts_with(".git") {
                let list = if data.is_file() { &mut guard.files } else { &mut guard.links };
                list.insert(path.to_owned());
            }
            Ok(())
        })?;
        Ok(guard)
    }

    /// The files to mount read-only, below the place where the tree is seen.
    pub(super) fn mounted(&self, target: &Path, part: ProgramScope) -> Vec<PathBuf> {
        match self.is_mounted(part) {
            true => self.files.iter().map(|path| target.join(path)).collect(),
            false => Vec::new(),
        }
    }

    fn is_mounted(&self, part: ProgramScope) -> bool {
        let most = match part {
            ProgramScope::Whole => MAX_MOUNTS,
            ProgramScope::SingleTest => MAX_MOUNTS_PER_TEST,
        };
        self.files.len() <= most
    }

    /// The files that a program changed or removed; the first few. One that was written and then looked the
    /// same again counts where others may have read it in between.
    pub(super) fn changed(
        &self,
        tree: &Path,
        written: &ChangedTree,
        part: ProgramScope,
    ) -> io::Result<Vec<String>> {
        let mut changed = BTreeSet::new();
        match written {
            ChangedTree::Copy(copy) => {
                let other = |path: &&PathBuf| !is_same(tree, copy, path);
                changed.extend(self.all().filter(other).cloned());
            }
            ChangedTree::Layer(layer) => {
                let undone_counts = part == ProgramScope::Whole && !self.is_mounted(part);
                let look = LayerScan { guard: self, tree, layer, undone_counts };
                look.directory(Path::new(""), &mut changed)?;
            }
        }
        Ok(changed
            .into_iter()
            .map(|path| path.display().to_string())
            .take(MAX_REPORTED_FILES)
            .collect())
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.links)
    }

    fn contains(&self, path: &Path) -> bool {
        self.files.contains(path) || self.links.contains(path)
    }

    /// The tracked files at or below a path.
    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let from = |list: &'a BTreeSet<PathBuf>| {
            list.range(path.to_owned()..).take_while(move |one| one.starts_with(path))
        };
        from(&self.files).chain(from(&self.links))
    }
}

/// A scan of an overlay layer, which has the written files and marks for removed ones.
struct LayerScan<'a> {
    guard: &'a TreeGuard,
    tree: &'a Path,
    layer: &'a Path,
    undone_counts: bool,
}

impl LayerScan<'_> {
    fn directory(&self, place: &Path, changed: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(self.layer.join(place))? {
            let entry = entry?;
            let path = place.join(entry.file_name());
            let in_tree = fs::symlink_metadata(self.tree.join(&path));
            // What the tree does not contain is new.
            let Ok(in_tree) = in_tree else { continue };
            let is_directory = entry.file_type()?.is_dir();
            let hides = is_directory && is_opaque(&entry.path())?;
            if is_directory && in_tree.is_dir() && !hides {
                self.directory(&path, changed)?;
            } else if self.guard.contains(&path) && !is_directory {
                if self.undone_counts || !is_same(self.tree, self.layer, &path) {
                    changed.insert(path);
                }
            } else {
                // All that was below is hidden, save what was written there again.
                let is_gone = |one: &&PathBuf| !is_same(self.tree, self.layer, one);
                let below = self.guard.below(&path);
                changed.extend(below.filter(|one| self.undone_counts || is_gone(one)).cloned());
            }
        }
        Ok(())
    }
}

fn is_opaque(directory: &Path) -> io::Result<bool> {
    let mut value = [0; 8];
    match rustix::fs::lgetxattr(directory, OPAQUE, &mut value) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether two trees have the same at a path, which is reached without a link.
fn is_same(one: &Path, other: &Path, path: &Path) -> bool {
    let read = |root: &Path| -> io::Result<Content> {
        let place = plain::resolve(root, path)?;
        let data = fs::symlink_metadata(&place)?;
        if data.is_symlink() {
            return Ok(Content::Link(fs::read_link(&place)?));
        }
        if !data.is_file() {
            return Err(io::Error::other("neither a file nor a link"));
        }
        Ok(Content::Plain(fs::read(&place)?, data.permissions().mode() & 0o111 != 0))
    };
    matches!((read(one), read(other)), (Ok(one), Ok(other)) if one == other)
}

#[derive(PartialEq, Eq)]
enum Content {
    /// Its bytes, and whether it can be run.
    Plain(Vec<u8>, bool),
    Link(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_in_a_copy_is_reported_and_new_files_are_not() {
        let place = tempfile::tempdir().unwrap();
        let (tree, copy) = (place.path().join("tree"), place.path().join("copy"));
        for root in [&tree, &copy] {
            fs::create_dir_all(root.join("a")).unwrap();
            fs::write(root.join("a/b"), "text").unwrap();
            fs::write(root.join("c"), "text").unwrap();
        }
        let guard = TreeGuard::observe(&tree).unwrap();
        let written = ChangedTree::Copy(copy.clone());
        let changed = || guard.changed(&tree, &written, ProgramScope::Whole).unwrap();
        fs::write(copy.join("a/new"), "").unwrap();
        assert_eq!(changed(), Vec::<String>::new());
        fs::write(copy.join("a/b"), "other").unwrap();
        fs::remove_file(copy.join("c")).unwrap();
        assert_eq!(changed(), ["a/b", "c"]);
    }

    #[test]
    fn file_with_the_same_text_in_a_layer_counts_only_in_strict_mode() {
        let place = tempfile::tempdir().unwrap();
        let (tree, layer) = (place.path().join("tree"), place.path().join("layer"));
        for root in [&tree, &layer] {
            fs::create_dir_all(root.join("a")).unwrap();
            fs::write(root.join("a/b"), "text").unwrap();
        }
        let guard = TreeGuard::observe(&tree).unwrap();
        let strict = |undone_counts| {
            let mut changed = BTreeSet::new();
            let look = LayerScan { guard: &guard, tree: &tree, layer: &layer, undone_counts };
            look.directory(Path::new(""), &mut changed).unwrap();
            changed.len()
        };
        assert_eq!((strict(false), strict(true)), (0, 1));
    }
}
