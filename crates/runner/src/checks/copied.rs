//! A digest of the files that a task copies from the checkout into a tree.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The size of a read.
const BUFFER_BYTES: usize = 64 * 1024;

/// The digest of everything below these paths of a checkout: names, kinds, permissions and contents.
pub fn copied_digest(checkout: &Path, paths: &[String]) -> io::Result<String> {
    let mut digest = Sha256::new();
    for path in paths {
        add_entry(&mut digest, &checkout.join(path), OsStr::new(path))?;
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add_entry(digest: &mut Sha256, place: &Path, name: &OsStr) -> io::Result<()> {
    let found = fs::symlink_metadata(place)?;
    let kind = found.file_type();
    let mode = found.permissions().mode().to_string();
    if kind.is_dir() {
        let mut names = fs::read_dir(place)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        let count = names.len().to_string();
        for part in [b"directory", name.as_bytes(), mode.as_bytes(), count.as_bytes()] {
            add_part(digest, part);
        }
        return names.iter().try_for_each(|name| add_entry(digest, &place.join(name), name));
    }
    let (what, content) = if kind.is_symlink() {
        ("link", fs::read_link(place)?.into_os_string().as_bytes().to_vec())
    } else if kind.is_file() {
        ("file", file_digest(place)?)
    } else {
        return Err(io::Error::other(format!("{} is no file or directory", place.display())));
    };
    for part in [what.as_bytes(), name.as_bytes(), mode.as_bytes(), &content] {
        add_part(digest, part);
    }
    Ok(())
}

/// A part with its length, so that no two lists of parts are the same bytes.
fn add_part(digest: &mut Sha256, part: &[u8]) {
    digest.update(part.len().to_le_bytes());
    digest.update(part);
}

fn file_digest(file: &Path) -> io::Result<Vec<u8>> {
    let mut digest = Sha256::new();
    let mut file = File::open(file)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(digest.finalize().to_vec());
        }
        digest.update(buffer.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_difference_below_a_path_changes_the_digest() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("node_modules");
        fs::create_dir_all(modules.join("a")).unwrap();
        fs::write(modules.join("a/index.js"), "one").unwrap();
        fs::write(place.path().join("other"), "not copied").unwrap();
        let digest = || copied_digest(place.path(), &["node_modules".to_owned()]).unwrap();
        let mut digests = vec![digest()];
        fs::write(place.path().join("other"), "changed").unwrap();
        assert_eq!(digest(), digests[0], "a file that is not copied does not count");
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(modules.join("a/index.js"), "two").unwrap(),
            &|| fs::create_dir(modules.join("b")).unwrap(),
            &|| std::os::unix::fs::symlink("a", modules.join("link")).unwrap(),
            &|| {
                let mode = fs::Permissions::from_mode(0o700);
                fs::set_permissions(modules.join("a/index.js"), mode).unwrap();
            },
        ];
        for change in changes {
            change();
            assert!(!digests.contains(&digest()));
            digests.push(digest());
        }
        assert!(copied_digest(place.path(), &["missing".to_owned()]).is_err());
    }
}
