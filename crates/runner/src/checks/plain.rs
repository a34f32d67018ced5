//! Reading files that untrusted programs may have put in place: no link is followed.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use nix::libc;

/// The text of a regular file below `root`, of at most `limit` bytes.
pub(super) fn read(root: &Path, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let path = resolve(root, relative)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path)?;
    if !file.metadata()?.is_file() {
        return Err(refused(&path, "is no plain file"));
    }
    let mut text = Vec::new();
    file.take(limit + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > limit {
        return Err(refused(&path, "is too large"));
    }
    Ok(text)
}

/// Resolves a path below `root`, none of whose directories may be a link.
pub(super) fn resolve(root: &Path, relative: &Path) -> io::Result<PathBuf> {
    let mut place = root.to_owned();
    let mut parts = relative.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(refused(relative, "leads elsewhere"));
        };
        place.push(name);
        if parts.peek().is_some() && !fs::symlink_metadata(&place)?.is_dir() {
            return Err(refused(&place, "is no directory"));
        }
    }
    Ok(place)
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{} {why}", path.display()))
}
