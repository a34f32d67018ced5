//! Read-only paths in writable directories.
//!
//! A file that is mounted over itself can be neither written, removed nor renamed. The directories on
//! the way to it could still be, and take it with them, so each of them is mounted over itself too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;

use super::mounts::{self, Access};
use super::{Sandbox, SandboxError};

/// As many links as may be on the way to one file.
const MAX_LINKS: usize = 16;

/// Freezes what the sandbox names, after all that it names is in its place.
pub(super) fn freeze_all(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let given = sandbox.writable.iter().chain(&sandbox.layered).map(|bind| bind.target.as_path());
    let overlaid = sandbox.overlaid.iter().map(|one| one.target.as_path());
    let mut freezer = Freezer { tops: given.chain(overlaid).collect(), kept: BTreeSet::new() };
    let mut paths: Vec<&PathBuf> = sandbox.read_only_paths.iter().collect();
    paths.sort_by_key(|path| path.components().count());
    for path in paths {
        freezer.freeze(path, MAX_LINKS).map_err(|error| {
            let why = format!("{} cannot be frozen: {error}", path.display());
            SandboxError::new("mount namespace", why)
        })?;
    }
    Ok(())
}

struct Freezer<'a> {
    /// The writable directories.
    tops: Vec<&'a Path>,
    /// Directories and links that stay where they are.
    kept: BTreeSet<PathBuf>,
}

impl Freezer<'_> {
    fn freeze(&mut self, path: &Path, links: usize) -> io::Result<()> {
        let around = self.tops.iter().filter(|top| path.starts_with(top));
        let Some(top) = around.max_by_key(|top| top.components().count()) else {
            return Ok(());
        };
        let mut place = top.to_path_buf();
        let way = path.strip_prefix(top).unwrap_or(path);
        let mut parts = way.components();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                return Err(io::Error::other("the path is not a plain one"));
            };
            place.push(name);
            let Some(found) = there(fs::symlink_metadata(&place))? else { return Ok(()) };
            if found.is_symlink() {
                return self.follow(&place, parts.as_path(), links);
            }
            let last = parts.as_path().as_os_str().is_empty();
            if !last && self.kept.insert(place.clone()) {
                if !found.is_dir() {
                    return Ok(());
                }
                mounts::pin(&place)?;
            }
        }
        mounts::bind(path, path, Access::Read)
    }

    /// A link stays a link, and what it leads to is frozen.
    fn follow(&mut self, link: &Path, rest: &Path, links: usize) -> io::Result<()> {
        let Some(links) = links.checked_sub(1) else {
            return Err(io::Error::other("there are too many links on the way"));
        };
        if self.kept.insert(link.to_owned()) {
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let opened = open(link, flags, Mode::empty())?;
            let itself = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            mount(Some(&itself), &itself, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        }
        match there(fs::canonicalize(link))? {
            Some(real) if rest.as_os_str().is_empty() => self.freeze(&real, links),
            Some(real) => self.freeze(&real.join(rest), links),
            None => Ok(()),
        }
    }
}

fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        found => found.map(Some),
    }
}
