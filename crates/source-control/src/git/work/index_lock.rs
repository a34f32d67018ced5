//! The lock by which git keeps others from a checkout's index, held by us while a branch moves.
//!
//! It appears with its text in it, by a hard link, so that one that a killed process of ours left
//! can be told from that of anybody's git.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bailiwick_model::Sha256Hex;

/// The index that git writes while we hold the lock.
const FRESH: &str = "bailiwick.index";

/// A checkout whose index nobody else can write.
#[derive(Debug)]
pub(super) struct IndexLock {
    private: PathBuf,
}

impl IndexLock {
    /// Locks the index in `private`; nothing if somebody has it.
    pub(super) fn take(private: &Path, state: &Path) -> io::Result<Option<Self>> {
        let own = own_name(private, state);
        fs::write(&own, mark(state))?;
        let linked = fs::hard_link(&own, private.join("index.lock"));
        fs::remove_file(&own)?;
        match linked {
            Ok(()) => Ok(Some(Self { private: private.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A copy of the index for git to write; its age is the same.
    pub(super) fn fresh_copy(&self) -> io::Result<PathBuf> {
        let fresh = self.private.join(FRESH);
        super::files::copy_index(&self.private.join("index"), &fresh)?;
        Ok(fresh)
    }

    /// Puts the copy in the place of the index.
    pub(super) fn install(&self) -> io::Result<()> {
        fs::rename(self.private.join(FRESH), self.private.join("index"))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        remove(&self.private);
    }
}

/// Removes what a killed process of ours left in `private`. The caller knows that none is at work.
pub(super) fn clear(private: &Path, state: &Path) -> io::Result<bool> {
    let own = own_name(private, state);
    if own.exists() {
        fs::remove_file(own)?;
    }
    let ours = fs::read(private.join("index.lock")).is_ok_and(|text| text == mark(state));
    if ours {
        remove(private);
    }
    Ok(ours)
}

/// The lock goes last: nobody but its holder has files of those names.
fn remove(private: &Path) {
    for name in ["bailiwick.index.lock", FRESH, "index.lock"] {
        let _gone = fs::remove_file(private.join(name));
    }
}

fn mark(state: &Path) -> Vec<u8> {
    format!("a landing of bailiwick with its state in {}\n", state.display()).into_bytes()
}

fn own_name(private: &Path, state: &Path) -> PathBuf {
    let state = Sha256Hex::of(mark(state));
    private.join(format!("bailiwick-{}.lock", state.prefix(16)))
}
