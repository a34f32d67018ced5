//! Reading files that an agent may have replaced: pipes, devices and files that are too large are
//! refused.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    require(path)?;
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("{} has more than {limit} bytes", path.display())))
}

/// The text of a short file, without white space at its end.
pub(super) fn read_line(path: &Path) -> io::Result<String> {
    const LIMIT: u64 = 64 * 1024;
    let text = String::from_utf8(read(path, LIMIT)?)
        .map_err(|_| io::Error::other(format!("{} is not UTF-8", path.display())))?;
    Ok(text.trim_end().to_owned())
}

/// Returns an error if the path is not a regular file, or a link to one.
pub(super) fn require(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is not a plain file", path.display())))
}

/// The same, but a missing file is accepted.
pub(super) fn require_if_exists(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => require(path),
    }
}

/// Finds a pipe or a device below a directory that git would open and wait for: one inside of a
/// repository, or one whose name begins with `.git`.
pub(super) fn find_blocking_file(directory: &Path) -> Option<String> {
    let mut open = vec![(directory.to_owned(), false)];
    while let Some((directory, in_repository)) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let looked_for = in_repository || name.as_encoded_bytes().starts_with(b".git");
            if kind.is_dir() {
                open.push((entry.path(), in_repository || name == ".git"));
            } else if looked_for && !kind.is_file() && !kind.is_symlink() {
                return Some(format!("{} is not a plain file", entry.path().display()));
            }
        }
    }
    None
}
