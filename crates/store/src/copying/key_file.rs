//! Copies the key of the secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Fails if both databases have a key, and not the same one: another key would leave secrets that nobody can read.
pub(super) fn require_no_other(from: &Path, to: &Path) -> io::Result<()> {
    if from.exists() && to.exists() && fs::read(from)? != fs::read(to)? {
        return Err(io::Error::other(format!("{} is another key", to.display())));
    }
    Ok(())
}

/// A key that is there already stays. After a power failure, all of it is there or nothing.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    require_no_other(from, to)?;
    if !from.exists() || to.exists() {
        return Ok(());
    }
    let key = fs::read(from)?;
    let directory = match to.parent() {
        Some(directory) if directory != Path::new("") => directory,
        Some(_) | None => Path::new("."),
    };
    fs::create_dir_all(directory)?;
    // An interrupted copy can have left one.
    let unfinished = to.with_added_extension("unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // Only its owner may read it.
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished)?;
    file.write_all(&key)?;
    file.sync_all()?;
    fs::rename(&unfinished, to)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{copy, require_no_other};

    #[test]
    fn key_is_copied_once_and_never_replaced_or_ignored() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from.key"), place.path().join("to.key"));
        copy(&from, &to).unwrap();
        assert!(!to.exists(), "there is no key to copy");
        std::fs::write(&from, "one").unwrap();
        // An interrupted copy has left a part of it.
        std::fs::write(place.path().join("to.key.unfinished"), "a longer text").unwrap();
        copy(&from, &to).unwrap();
        copy(&from, &to).unwrap();
        require_no_other(&from, &to).unwrap();
        let files = std::fs::read_dir(place.path()).unwrap().count();
        let mode = std::fs::metadata(&to).unwrap().permissions().mode() & 0o077;
        assert_eq!((files, mode), (2, 0));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
        std::fs::write(&from, "another").unwrap();
        assert!(copy(&from, &to).is_err() && require_no_other(&from, &to).is_err());
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
    }
}
