//! Whether the file at the path of the database is still the one that is open.
//!
//! SQLite does not notice that its file was moved, replaced or deleted: it would go on writing to a file that nobody
//! finds again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The file of a database, as it was when it was opened.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Why the file at the path is not the one that is open.
#[derive(Debug, Error)]
pub(crate) enum FileChanged {
    #[error(
        "the file was moved or deleted while it was open; nothing is written until it is back in its \
         place, or until the program is restarted with a restored copy"
    )]
    Gone,
    #[error(
        "the file was replaced while it was open; nothing is written to the old one: put it back, or \
         restart the program to use the new one"
    )]
    Replaced,
    #[error("the file cannot be found: {0}")]
    Unreadable(io::Error),
}

impl DatabaseFile {
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let (device, inode) = identity(path)?;
        Ok(Self { path: path.to_owned(), device, inode })
    }

    pub(crate) fn check(&self) -> Result<(), FileChanged> {
        match identity(&self.path) {
            Ok(found) if found == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(FileChanged::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileChanged::Gone),
            Err(error) => Err(FileChanged::Unreadable(error)),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::{DatabaseFile, FileChanged};

    #[test]
    fn moved_or_replaced_file_is_noticed_until_it_is_back() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("x.db"), directory.path().join("aside.db"));
        std::fs::write(&path, "one").unwrap();
        let file = DatabaseFile::at(&path).unwrap();
        file.check().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        assert!(matches!(file.check(), Err(FileChanged::Gone)));
        std::fs::write(&path, "one").unwrap();
        assert!(matches!(file.check(), Err(FileChanged::Replaced)));
        std::fs::rename(&moved, &path).unwrap();
        file.check().unwrap();
    }
}
