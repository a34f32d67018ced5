//! A directory as a tree.

use std::io::ErrorKind;
use std::path::PathBuf;

use bailiwick_kit::{Tree, TreeError};

/// No file of a kit comes near it; a device has no end.
const LARGEST: u64 = 1 << 20;

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
        let place = self.root.join(path);
        match std::fs::metadata(&place) {
            Ok(found) if !found.is_file() => {
                return Err(unreadable(path, "it is not a plain file"));
            }
            Ok(found) if found.len() > LARGEST => {
                return Err(unreadable(path, "it is larger than a file of a kit can be"));
            }
            Ok(_) => {}
            Err(error) => return self.absent(path, &error).map(|()| None),
        }
        let bytes = std::fs::read(&place).map_err(|error| unreadable(path, &error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8"))?;
        Ok(Some(text))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let entries = match std::fs::read_dir(self.root.join(path)) {
            Ok(entries) => entries,
            Err(error) => return self.absent(path, &error).map(|()| Vec::new()),
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
    /// Nothing there is fine. A file where a directory belongs, or a link that leads nowhere, is
    /// not: it would uncover what lies below.
    fn absent(&self, path: &str, error: &std::io::Error) -> Result<(), TreeError> {
        if error.kind() != ErrorKind::NotFound {
            return Err(unreadable(path, &error.to_string()));
        }
        let place = self.root.join(path);
        let mut ways = place.ancestors().take_while(|way| way.starts_with(&self.root));
        let there = ways.find_map(|way| Some((way, std::fs::symlink_metadata(way).ok()?)));
        match there {
            Some((way, found)) if found.is_symlink() && !way.exists() => {
                Err(unreadable(path, "a link leads nowhere"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn unreadable(path: &str, why: &str) -> TreeError {
    TreeError { path: path.to_owned(), why: why.to_owned() }
}
