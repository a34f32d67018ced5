//! Copies the key of the secrets.

use std::path::Path;

/// A key that is there already stays; another one would leave secrets that nobody can read.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    if to.exists() {
        return match std::fs::read(from)? == std::fs::read(to)? {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("{} is another key", to.display()))),
        };
    }
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // With its mode: it is readable by its owner only.
    std::fs::copy(from, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn key_is_copied_once_and_never_replaced_or_ignored() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from.key"), place.path().join("to.key"));
        copy(&from, &to).unwrap();
        assert!(!to.exists(), "there is no key to copy");
        std::fs::write(&from, "one").unwrap();
        copy(&from, &to).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
        std::fs::write(&from, "another").unwrap();
        assert!(copy(&from, &to).is_err());
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "one");
    }
}
