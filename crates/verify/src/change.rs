//! What the agent changed: the paths that differ between two trees.

use serde::{Deserialize, Serialize};

/// A path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path after the change; for a deleted file, the path before it.
    pub path: String,
    /// The path before, if git detects a rename or a copy.
    pub from: Option<String>,
    /// Whether it is a copy: `from` still exists.
    pub copied: bool,
    /// The tree entry before; none if the file was added.
    pub before: Option<Entry>,
    /// The tree entry after; none if the file was deleted.
    pub after: Option<Entry>,
}

/// A tree entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub mode: Mode,
    /// The id of the git object.
    pub object: String,
}

/// The kinds of tree entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link.
    Link,
    /// A submodule: a commit of another repository.
    Submodule,
}

impl Change {
    /// The touched paths: both sides of a rename, only the new side of a copy.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let renamed_from = self.from.as_deref().filter(|_| !self.copied);
        renamed_from.into_iter().chain([self.path.as_str()])
    }

    /// Whether it is a submodule, which globs match as a directory.
    pub fn is_directory(&self) -> bool {
        let entry = self.after.as_ref().or(self.before.as_ref());
        entry.is_some_and(|entry| entry.mode == Mode::Submodule)
    }

    /// Whether it is a regular file on every side that exists.
    pub fn is_plain(&self) -> bool {
        let sides = [&self.before, &self.after];
        sides.into_iter().flatten().all(|entry| match entry.mode {
            Mode::File | Mode::Executable => true,
            Mode::Link | Mode::Submodule => false,
        })
    }

    /// Whether the file was deleted; a rename is no deletion.
    pub fn is_deletion(&self) -> bool {
        self.after.is_none()
    }

    /// Whether the file was added; a rename or a copy is no addition.
    pub fn is_addition(&self) -> bool {
        self.before.is_none()
    }
}
