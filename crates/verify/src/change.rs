//! What the agent changed: one path of one tree against another.

use serde::{Deserialize, Serialize};

/// A path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path now; of a deleted file, the path that it had.
    pub path: String,
    /// The path before, where git holds the file for renamed or copied.
    pub from: Option<String>,
    /// Whether `from` is still there.
    pub copied: bool,
    /// What was there before.
    pub before: Option<Entry>,
    /// What is there now; nothing where it is deleted.
    pub after: Option<Entry>,
}

/// What a tree has at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Of which kind.
    pub mode: Mode,
    /// The name of the object.
    pub object: String,
}

/// The kinds of things in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A file.
    File,
    /// A file that can be run.
    Executable,
    /// A symbolic link.
    Link,
    /// A commit of another repository.
    Submodule,
}

impl Change {
    /// Every path that it touches: both sides of a rename, the new side alone of a copy.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let left = self.from.as_deref().filter(|_| !self.copied);
        left.into_iter().chain([self.path.as_str()])
    }

    /// Whether it is a submodule, which a glob sees as a directory.
    pub fn is_directory(&self) -> bool {
        let entry = self.after.as_ref().or(self.before.as_ref());
        entry.is_some_and(|entry| entry.mode == Mode::Submodule)
    }

    /// Whether it is a plain file, and was one if it was there before.
    pub fn is_plain(&self) -> bool {
        let sides = [&self.before, &self.after];
        sides.into_iter().flatten().all(|entry| match entry.mode {
            Mode::File | Mode::Executable => true,
            Mode::Link | Mode::Submodule => false,
        })
    }

    /// Whether the file is gone, and did not just move.
    pub fn is_deletion(&self) -> bool {
        self.after.is_none()
    }

    /// Whether there was nothing like it before.
    pub fn is_addition(&self) -> bool {
        self.before.is_none()
    }
}
