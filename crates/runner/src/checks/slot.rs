//! Places in which trees are built, one tree at a time, with a build cache that outlives them.
//!
//! ```text
//! <state>/caches/<repository>/slots/<n>/
//!   lock     held while the slot is used
//!   tree     the tree; gone when nobody uses the slot
//!   target   the build cache
//!   cargo    what cargo fetched for checks
//!   work     what programs write, one directory each; gone after them
//!   home     for runs without a sandbox
//!   tools    our own scripts, which nobody inside can write
//!   times    what is kept of the last tree's times, which nobody inside sees
//! ```
//!
//! Only the current slot is visible inside, so that no repository writes another's cache. In it, a program writes
//! its own directory in `work`, except for preparations and trusted builds.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::environment;

/// More than the number of verifications that ever run in parallel.
const MAX_SLOTS: u32 = 1024;

/// A slot that is ours until this is dropped; then its tree is gone.
#[derive(Debug)]
pub(super) struct Slot {
    place: PathBuf,
    _lock: File,
}

impl Slot {
    /// The first unused slot.
    pub(super) fn take(state: &Path, repository: &str) -> io::Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if repository.is_empty() || repository.starts_with('.') || !repository.chars().all(plain) {
            return Err(io::Error::other(format!("`{repository}` is no name for a cache")));
        }
        let slots = state.join("caches").join(repository).join("slots");
        for number in 0..MAX_SLOTS {
            let place = slots.join(number.to_string());
            make_private(&place)?;
            if let Some(lock) = try_lock(&place)? {
                let slot = Self { place, _lock: lock };
                slot.clear()?;
                return Ok(slot);
            }
        }
        Err(io::Error::other(format!("all slots below {} are in use", slots.display())))
    }

    /// Removes the remains of a tree, and creates the mount points.
    pub(super) fn clear(&self) -> io::Result<()> {
        remove_leftovers(&self.place)?;
        for name in ["tree", "target", "cargo", "work", "home", "tools"] {
            make_private(&self.place.join(name))?;
        }
        Ok(())
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.place.join("tree")
    }

    pub(super) fn target(&self) -> PathBuf {
        self.place.join("target")
    }

    pub(super) fn cargo(&self) -> PathBuf {
        self.place.join("cargo")
    }

    /// A place for what a program writes.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.place.join("work").join(name)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.place.join("home")
    }

    /// The home for a setup, which is kept with its result.
    pub(super) fn setup_home(&self) -> PathBuf {
        self.place.join("work").join("setup-home")
    }

    /// The directory with the results of setups.
    pub(super) fn setups(&self) -> PathBuf {
        let repository = self.place.parent().and_then(Path::parent);
        repository.unwrap_or(&self.place).join("setup")
    }

    pub(super) fn times(&self) -> PathBuf {
        self.place.join("times.json")
    }

    pub(super) fn tools(&self) -> PathBuf {
        self.place.join("tools")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the slot is used again.
        let _ = remove_leftovers(&self.place);
    }
}

/// Removes the trees that killed verifications left in unused slots.
pub fn sweep(state: &Path) -> io::Result<()> {
    for repository in entries(&state.join("caches"))? {
        for place in entries(&repository.join("slots"))? {
            if let Some(_lock) = try_lock(&place)? {
                remove_leftovers(&place)?;
            }
        }
    }
    Ok(())
}

/// The build caches of one repository, or of all.
pub fn build_caches(state: &Path, repository: Option<&str>) -> io::Result<Vec<PathBuf>> {
    let caches = state.join("caches");
    let repositories = match repository {
        Some(name) => vec![caches.join(name)],
        None => entries(&caches)?,
    };
    let mut found = Vec::new();
    for repository in repositories {
        found.extend(entries(&repository.join("slots"))?);
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes what a build cache holds, all but its lock; false if it is in use.
pub fn remove_build_cache(place: &Path) -> io::Result<bool> {
    let Some(_lock) = try_lock(place)? else { return Ok(false) };
    for entry in entries(place)?.into_iter().filter(|entry| !entry.ends_with("lock")) {
        if entry.is_dir() {
            remove(&entry)?;
        } else {
            fs::remove_file(&entry)?;
        }
    }
    Ok(true)
}

/// Whether a build cache is in use.
pub fn is_build_cache_in_use(place: &Path) -> io::Result<bool> {
    Ok(try_lock(place)?.is_none())
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

fn try_lock(place: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(place.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn remove_leftovers(place: &Path) -> io::Result<()> {
    ["tree", "work", "home"].into_iter().try_for_each(|name| remove(&place.join(name)))
}

/// Removes a directory with everything in it, regardless of permissions.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            environment::open_up(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

pub(super) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
