//! The original files of a tree, to detect whether its preparation changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::times;

/// How many changed files a message names.
const MAX_REPORTED_FILES: usize = 10;

/// Files, and what is in them.
#[derive(Debug)]
pub(super) struct Tracked(BTreeMap<PathBuf, Content>);

#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// The digest of its text, and whether it can be run.
    Plain([u8; 32], bool),
    Link(PathBuf),
    /// Neither.
    Other,
}

/// Reads all files of a tree.
pub(super) fn observe(tree: &Path) -> io::Result<Tracked> {
    let mut found = BTreeMap::new();
    times::walk(tree, &mut |path, _| {
        // Git writes this one even when it only reads.
        if path != Path::new(".git/index") {
            found.insert(path.to_owned(), content(&tree.join(path))?);
        }
        Ok(())
    })?;
    Ok(Tracked(found))
}

impl Tracked {
    /// All paths.
    pub(super) fn paths(&self) -> BTreeSet<PathBuf> {
        self.0.keys().cloned().collect()
    }

    /// Those that are not what they were; the first few.
    pub(super) fn changed(&self, tree: &Path) -> Vec<String> {
        let changed = self.0.iter().filter(|(path, before)| {
            // A directory of the path may have become a link.
            let reached = super::plain::resolve(tree, path);
            let now = reached.and_then(|path| content(&path));
            now.ok().as_ref() != Some(*before)
        });
        changed.map(|(path, _)| path.display().to_string()).take(MAX_REPORTED_FILES).collect()
    }
}

fn content(path: &Path) -> io::Result<Content> {
    let data = fs::symlink_metadata(path)?;
    if data.is_symlink() {
        return Ok(Content::Link(fs::read_link(path)?));
    }
    if !data.is_file() {
        return Ok(Content::Other);
    }
    let digest = Sha256::digest(fs::read(path)?);
    Ok(Content::Plain(digest.into(), data.permissions().mode() & 0o111 != 0))
}
