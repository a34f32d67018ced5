//! Directories of ours for one piece of work, which a later sweep finds if we are killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that is gone when this is dropped. It is locked by us, and by every git that has
/// the lock for its input: nobody sweeps it away while one of those lives.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    directory: TempDir,
    lock: File,
}

impl PrivateDirectory {
    /// A new one below `state`.
    pub(super) fn make(state: &Path) -> io::Result<Self> {
        let all = all(state);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&all)?;
        // Whoever sweeps waits until the new directory has its lock.
        let door = door(&all)?;
        door.lock_shared()?;
        let directory = tempfile::Builder::new().prefix("work-").tempdir_in(&all)?;
        let lock = File::create_new(directory.path().join("lock"))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { directory, lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What a git that works in it gets for its input.
    pub(super) fn lock(&self) -> &File {
        &self.lock
    }

    /// The same for a git that is to read these bytes: the lock itself has them.
    pub(super) fn lock_with(&self, bytes: &[u8]) -> io::Result<&File> {
        let mut lock = &self.lock;
        lock.set_len(0)?;
        lock.rewind()?;
        lock.write_all(bytes)?;
        lock.rewind()?;
        Ok(&self.lock)
    }
}

/// Removes what processes that were killed have left; gives what it removed.
pub(super) fn sweep(state: &Path) -> io::Result<Vec<PathBuf>> {
    let all = all(state);
    if !all.is_dir() {
        return Ok(Vec::new());
    }
    let door = door(&all)?;
    door.lock()?;
    let mut removed = Vec::new();
    for entry in fs::read_dir(&all)? {
        let path = entry?.path();
        if !path.is_dir() || is_used(&path)? {
            continue;
        }
        fs::remove_dir_all(&path)?;
        removed.push(path);
    }
    Ok(removed)
}

fn is_used(directory: &Path) -> io::Result<bool> {
    let file = match File::open(directory.join("lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn all(state: &Path) -> PathBuf {
    state.join("temporary")
}

fn door(all: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(all.join("door"))
}
