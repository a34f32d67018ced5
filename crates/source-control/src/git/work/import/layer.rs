//! Reading the files of a layer without following links or waiting for pipes.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// An entry of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// The layer has no entry here.
    Nothing,
    /// The entry was deleted.
    Whiteout,
    File,
    Directory,
}

/// The entry at a path; an error if it is a link, a pipe or a device.
pub(super) fn look(path: &Path) -> io::Result<Entry> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entry::Nothing),
        Err(error) => return Err(error),
    };
    let kind = found.file_type();
    if kind.is_file() {
        return Ok(Entry::File);
    }
    if kind.is_dir() {
        return Ok(Entry::Directory);
    }
    if kind.is_char_device() && found.rdev() == 0 {
        return Ok(Entry::Whiteout);
    }
    Err(io::Error::other(format!("{} is neither a file nor a directory", path.display())))
}

/// Opens a regular file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let other = || io::Error::other(format!("{} is not a plain file", path.display()));
    let before = fs::symlink_metadata(path)?;
    if !before.is_file() {
        return Err(other());
    }
    let file = File::open(path)?;
    let opened = file.metadata()?;
    let same = (opened.dev(), opened.ino()) == (before.dev(), before.ino());
    if same { Ok(file) } else { Err(other()) }
}

/// The bytes of a file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("{} has more than {limit} bytes", path.display())))
}

/// The error for a file in place of a directory, or the other way round.
pub(super) fn wrong_kind(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is a file where a directory belongs, or a directory where a file belongs",
        path.display()
    ))
}
