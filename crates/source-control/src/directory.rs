//! A directory as a tree.

use std::io::ErrorKind;
use std::path::PathBuf;

use bailiwick_kit::{Tree, TreeError};

/// The files below a directory, as they are now.
pub struct DirectoryTree {
    root: PathBuf,
}

impl DirectoryTree {
    /// The files below `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Tree for DirectoryTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        match std::fs::read(self.root.join(path)) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(unreadable(path, "it is not UTF-8")),
            },
            Err(error) if is_absent(error.kind()) => Ok(None),
            Err(error) => Err(unreadable(path, &error.to_string())),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let entries = match std::fs::read_dir(self.root.join(path)) {
            Ok(entries) => entries,
            Err(error) if is_absent(error.kind()) => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(path, &error.to_string())),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(path, &error.to_string()))?;
            match entry.file_name().into_string() {
                Ok(name) => names.push(name),
                Err(name) => {
                    let path = format!("{path}/{}", name.display());
                    return Err(unreadable(&path, "its name is not UTF-8"));
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A parent that is a file means, like a missing one, that there is nothing of this name.
fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unreadable(path: &str, why: &str) -> TreeError {
    TreeError { path: path.to_owned(), why: why.to_owned() }
}
