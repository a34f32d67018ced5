//! Reading the files of a directory as a `Tree`.

use std::io::ErrorKind;
use std::path::PathBuf;

use bailiwick_kit::{Tree, TreeError};

/// Files of a kit are much smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The current files below a directory.
pub struct DirectoryTree {
    root: PathBuf,
}

impl DirectoryTree {
    /// The files below `root`, which may be missing.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Tree for DirectoryTree {
    fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
        let full_path = self.root.join(path);
        match std::fs::metadata(&full_path) {
            Ok(found) if !found.is_file() => {
                return Err(unreadable(path, "it is not a plain file"));
            }
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                let why = format!("it is larger than {MAX_FILE_BYTES} bytes");
                return Err(unreadable(path, &why));
            }
            Ok(_) => {}
            Err(error) => return self.require_missing(path, &error).map(|()| None),
        }
        let bytes =
            std::fs::read(&full_path).map_err(|error| unreadable(path, &error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8"))?;
        Ok(Some(text))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let entries = match std::fs::read_dir(self.root.join(path)) {
            Ok(entries) => entries,
            Err(error) => return self.require_missing(path, &error).map(|()| Vec::new()),
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

impl DirectoryTree {
    /// Accepts a missing path. A file in the place of a directory and a broken link are errors: they
    /// would uncover the layer below.
    fn require_missing(&self, path: &str, error: &std::io::Error) -> Result<(), TreeError> {
        if error.kind() != ErrorKind::NotFound {
            return Err(unreadable(path, &error.to_string()));
        }
        let full_path = self.root.join(path);
        let mut parents = full_path.ancestors().take_while(|parent| parent.starts_with(&self.root));
        let existing =
            parents.find_map(|parent| Some((parent, std::fs::symlink_metadata(parent).ok()?)));
        match existing {
            Some((parent, found)) if found.is_symlink() && !parent.exists() => {
                Err(unreadable(path, "a symbolic link is broken"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn unreadable(path: &str, why: &str) -> TreeError {
    TreeError { path: path.to_owned(), why: why.to_owned() }
}
