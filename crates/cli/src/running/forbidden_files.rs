//! New files in the worktree that a limit on paths forbids: they are moved to the run's directory.
//!
//! Mounts protect what is tracked. Only names that are new in a writable directory can appear at all.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bailiwick_control::ports::{ForbiddenFiles, Removed, WorkError};
use bailiwick_policy::PathPolicy;
use bailiwick_source_control::git::Git;
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, open, openat2, renameat};
use rustix::io::Errno;

/// The new files of one worktree.
pub struct NewFiles {
    worktree: PathBuf,
    /// Where they are moved, each into a directory of its own.
    removed: PathBuf,
    paths: PathPolicy,
    /// What was there before the agent started: the setup's.
    before: BTreeSet<String>,
    /// How many were moved; held while somebody looks.
    moved: Mutex<u64>,
}

impl NewFiles {
    /// The new files of `worktree`; those that `paths` forbids go to `removed`.
    pub fn new(worktree: PathBuf, removed: PathBuf, paths: PathPolicy) -> Result<Self, WorkError> {
        let (before, moved) = (BTreeSet::new(), Mutex::new(0));
        let mut files = Self { worktree, removed, paths, before, moved };
        files.before = files.untracked()?.into_iter().collect();
        Ok(files)
    }

    /// Files that git neither tracks nor ignores.
    fn untracked(&self) -> Result<Vec<String>, WorkError> {
        let arguments = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z"];
        let listed = Git::at(&self.worktree).run(arguments).map_err(failed)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        Ok(listed.split_terminator('\0').map(str::to_owned).collect())
    }
}

impl ForbiddenFiles for NewFiles {
    fn remove(&self) -> Result<Vec<Removed>, WorkError> {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let mut removed = Vec::new();
        for path in self.untracked()?.into_iter().filter(|path| !self.before.contains(path)) {
            let Some(capability) = self.paths.forbids(&path) else { continue };
            if move_away(&self.worktree, &path, &self.removed, &mut moved).map_err(failed)? {
                removed.push(Removed { path, capability: capability.to_owned() });
            }
        }
        Ok(removed)
    }
}

fn failed(error: impl std::fmt::Display) -> WorkError {
    WorkError {
        what: "new files of the worktree cannot be examined".to_owned(),
        why: error.to_string(),
        of_tree: false,
    }
}

/// Moves a file, or what the agent has put there meanwhile. No link is followed: the agent may run while we
/// move. Gives whether there was anything.
fn move_away(worktree: &Path, path: &str, to: &Path, moved: &mut u64) -> Result<bool, Errno> {
    let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
    let directory = if directory.is_empty() { "." } else { directory };
    let root = directory_at(worktree)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let from = match openat2(&root, directory, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        opened => opened?,
    };
    match mkdirat(rustix::fs::CWD, to, Mode::RWXU) {
        Err(Errno::EXIST) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    let to = directory_at(to)?;
    loop {
        *moved += 1;
        let place = moved.to_string();
        match mkdirat(&to, &place, Mode::RWXU) {
            // From an earlier attempt.
            Err(Errno::EXIST) => continue,
            made => made?,
        }
        let target = format!("{place}/{name}");
        return match renameat(&from, name.trim_end_matches('/'), &to, &target) {
            Err(Errno::NOENT) => Ok(false),
            renamed => renamed.map(|()| true),
        };
    }
}

fn directory_at(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
