//! Whether a file system has room: git fails in the same way on a full disk and on objects that it refuses.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

/// Whether the file system of a directory has room for this number of files with this number of bytes.
pub(super) fn has_room(directory: &Path, files: u64, bytes: u64) -> io::Result<bool> {
    let found = statvfs(directory)?;
    let has_bytes = found.f_bavail.saturating_mul(found.f_frsize) >= bytes;
    // Some file systems do not limit the number of files, and say that there are none.
    let has_files = found.f_files == 0 || found.f_favail >= files;
    Ok(has_bytes && has_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_has_room_for_a_byte_and_not_for_everything() {
        let place = tempfile::tempdir().unwrap();
        assert!(has_room(place.path(), 1, 1).unwrap());
        assert!(!has_room(place.path(), 1, u64::MAX).unwrap());
        assert!(has_room(&place.path().join("missing"), 1, 1).is_err());
    }
}
