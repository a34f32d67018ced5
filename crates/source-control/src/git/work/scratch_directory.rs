//! Temporary directories below the state directory; those of killed processes are removed later.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that is removed on drop. This process and every git that reads the lock file keep it
/// locked, so that it is not swept while one of them lives.
#[derive(Debug)]
pub(super) struct ScratchDirectory {
    directory: TempDir,
    lock: File,
}

impl ScratchDirectory {
    /// Creates a new directory below `state`.
    pub(super) fn create(state: &Path) -> io::Result<Self> {
        let root = root(state);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        // A sweep waits until the new directory is locked.
        let sweep_lock = sweep_lock(&root)?;
        sweep_lock.lock_shared()?;
        let directory = tempfile::Builder::new().prefix("work-").tempdir_in(&root)?;
        let lock = File::create_new(directory.path().join("lock"))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { directory, lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The lock file, which is the input of every git that works in the directory.
    pub(super) fn lock(&self) -> &File {
        &self.lock
    }

    /// The lock file with these bytes as its content, for a git that reads them.
    pub(super) fn lock_with(&self, bytes: &[u8]) -> io::Result<&File> {
        let mut lock = &self.lock;
        lock.set_len(0)?;
        lock.rewind()?;
        lock.write_all(bytes)?;
        lock.rewind()?;
        Ok(&self.lock)
    }
}

/// Removes the directories of killed processes and returns their paths.
pub(super) fn sweep(state: &Path) -> io::Result<Vec<PathBuf>> {
    let root = root(state);
    if !root.is_dir() {
        return Ok(Vec::new());
    }
    let sweep_lock = sweep_lock(&root)?;
    sweep_lock.lock()?;
    let mut removed = Vec::new();
    for entry in fs::read_dir(&root)? {
        let path = entry?.path();
        if !path.is_dir() || is_used(&path)? {
            continue;
        }
        match fs::remove_dir_all(&path) {
            Ok(()) => removed.push(path),
            // Its owner, which has just ended, is removing it as well.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
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

fn root(state: &Path) -> PathBuf {
    state.join("temporary")
}

fn sweep_lock(root: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(root.join("door"))
}
