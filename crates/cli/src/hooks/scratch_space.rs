//! Scratch space of shell commands: what they write outside of their scope, as a layer over a checkout in which
//! its person works on.
//!
//! The layer must never hide later changes of the person. Before a command starts, and while no other one runs,
//! everything that is older in the layer than in the checkout is removed, and so are deletions.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

/// How an overlay marks a directory that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

/// Scratch space that a command uses.
pub struct InUse {
    _lock: File,
}

/// Prepares scratch space for a command in this checkout.
pub fn open(place: &Path, checkout: &Path) -> io::Result<InUse> {
    fs::create_dir_all(place)?;
    let lock = File::options().create(true).truncate(false).write(true).open(place.join("lock"))?;
    if lock.try_lock().is_ok() {
        let upper = place.join("upper");
        if upper.is_dir() {
            refresh(&upper, checkout)?;
        }
    }
    lock.lock_shared()?;
    Ok(InUse { _lock: lock })
}

/// Drops from a layer what hides something newer below it.
fn refresh(layer: &Path, below: &Path) -> io::Result<()> {
    if below.is_dir() {
        match rustix::fs::lremovexattr(layer, OPAQUE) {
            Ok(()) | Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for entry in fs::read_dir(layer)? {
        let entry = entry?;
        let (path, real) = (entry.path(), below.join(entry.file_name()));
        let found = entry.metadata()?;
        let under = real.symlink_metadata().ok();
        let is_newer = |one: &fs::Metadata| match (one.modified(), found.modified()) {
            (Ok(real), Ok(copy)) => real > copy,
            (Err(_), _) | (_, Err(_)) => true,
        };
        if found.file_type().is_char_device() {
            fs::remove_file(&path)?;
        } else if found.is_dir() {
            match &under {
                Some(one) if !one.is_dir() => fs::remove_dir_all(&path)?,
                Some(_) | None => refresh(&path, &real)?,
            }
        } else if under.is_some_and(|one| one.is_dir() || is_newer(&one)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes all scratch space below a directory.
pub fn remove(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        // The kernel leaves an unreadable directory there.
        let work = entry.path().join("work/work");
        if work.is_dir() {
            fs::set_permissions(&work, fs::Permissions::from_mode(0o700))?;
        }
    }
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn scratch_space_never_hides_newer_files_of_the_checkout() {
        let place = tempfile::tempdir().unwrap();
        let (space, checkout) = (place.path().join("space"), place.path().join("checkout"));
        let upper = space.join("upper");
        for directory in ["build", "kept"] {
            fs::create_dir_all(upper.join(directory)).unwrap();
            fs::create_dir_all(checkout.join(directory)).unwrap();
        }
        let write = |path: &Path, age: u64| {
            let file = File::create(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        write(&upper.join("mine.txt"), 100);
        write(&checkout.join("mine.txt"), 1);
        write(&upper.join("build/out"), 1);
        write(&checkout.join("build/out"), 100);
        write(&upper.join("kept/new"), 100);
        let first = open(&space, &checkout).unwrap();
        assert!(!upper.join("mine.txt").exists(), "the person changed it later");
        assert!(upper.join("build/out").exists() && upper.join("kept/new").exists());
        write(&upper.join("mine.txt"), 100);
        let _second = open(&space, &checkout).unwrap();
        assert!(upper.join("mine.txt").exists(), "nothing is removed while a command runs");
        drop(first);
        remove(&space).unwrap();
        assert!(!space.exists());
    }
}
