//! Git's lock on the index of a checkout, taken while a branch moves.
//!
//! A hard link creates it together with its content, so that a lock that a killed process of ours left
//! can be told from a lock of git.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bailiwick_model::Sha256Hex;

/// The index that git writes while the lock exists.
const NEW_INDEX: &str = "bailiwick.index";

/// A locked index; dropping this unlocks it.
#[derive(Debug)]
pub(super) struct IndexLock {
    git_dir: PathBuf,
}

impl IndexLock {
    /// Locks the index in `git_dir`; `None` if it is locked already.
    pub(super) fn acquire(git_dir: &Path, state: &Path) -> io::Result<Option<Self>> {
        let temporary = temporary_path(git_dir, state);
        fs::write(&temporary, lock_content(state))?;
        let linked = fs::hard_link(&temporary, git_dir.join("index.lock"));
        fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => Ok(Some(Self { git_dir: git_dir.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A copy of the index for git to write, with the same modification time.
    pub(super) fn copy_index(&self) -> io::Result<PathBuf> {
        let copy = self.git_dir.join(NEW_INDEX);
        super::worktree_files::copy_index(&self.git_dir.join("index"), &copy)?;
        Ok(copy)
    }

    /// Replaces the index by the copy.
    pub(super) fn install(&self) -> io::Result<()> {
        fs::rename(self.git_dir.join(NEW_INDEX), self.git_dir.join("index"))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        remove(&self.git_dir);
    }
}

/// Removes the lock that a killed process of ours left in `git_dir`. The caller must know that no such
/// process is alive.
pub(super) fn remove_stale(git_dir: &Path, state: &Path) -> io::Result<bool> {
    let temporary = temporary_path(git_dir, state);
    if temporary.exists() {
        fs::remove_file(temporary)?;
    }
    let is_ours =
        fs::read(git_dir.join("index.lock")).is_ok_and(|text| text == lock_content(state));
    if is_ours {
        remove(git_dir);
    }
    Ok(is_ours)
}

/// The lock is removed last: only its owner uses the other files.
fn remove(git_dir: &Path) {
    for name in ["bailiwick.index.lock", NEW_INDEX, "index.lock"] {
        let _removed = fs::remove_file(git_dir.join(name));
    }
}

fn lock_content(state: &Path) -> Vec<u8> {
    format!("a landing of bailiwick with its state in {}\n", state.display()).into_bytes()
}

fn temporary_path(git_dir: &Path, state: &Path) -> PathBuf {
    let state = Sha256Hex::of(lock_content(state));
    git_dir.join(format!("bailiwick-{}.lock", state.prefix(16)))
}
