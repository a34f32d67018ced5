//! Isolates the writes of programs: each has its own directory that is removed after it.
//!
//! ```text
//!  a test                   what it writes     gone after the test
//!  the build before it      what it wrote      gone after the job
//!  the slot                 tree, target       as they were
//! ```
//!
//! Without overlays, each program gets copies. Without a sandbox, nothing can be separated within a job, so only
//! jobs are.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::guard::{ChangedTree, ProgramScope};
use super::slot;
use crate::sandbox::{Bind, Fallback, Overlay};

/// How the writes of programs are isolated from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteIsolation {
    /// In overlay layers.
    Overlays,
    /// In copies of the tree, and a build cache that is empty at first.
    Copies,
    /// As [`WriteIsolation::Copies`], for a whole job.
    Jobs,
}

/// Whether writes reach the shared directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Writes go to the shared directory.
    Shared,
    /// Writes go to a private directory.
    Private,
}

/// The directories of a slot that a program is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) tree: &'a Path,
    pub(super) target: &'a Path,
}

/// A directory for the writes of programs; removed when this is dropped.
#[derive(Debug)]
pub(super) struct Work {
    place: PathBuf,
    /// The work that this one begins with.
    below: Option<PathBuf>,
    isolation: WriteIsolation,
    tree: WriteMode,
    target: WriteMode,
    owned: bool,
}

impl Work {
    /// A place for a job.
    pub(super) fn begin(
        place: PathBuf,
        isolation: WriteIsolation,
        shared: Shared<'_>,
        tree: WriteMode,
        target: WriteMode,
    ) -> io::Result<Self> {
        // With copies, no cache can be kept.
        let target =
            if isolation == WriteIsolation::Overlays { target } else { WriteMode::Private };
        slot::remove(&place)?;
        let work = Self { place, below: None, isolation, tree, target, owned: true };
        work.make()?;
        if isolation != WriteIsolation::Overlays && tree == WriteMode::Private {
            copy(shared.tree, &work.upper("tree"))?;
        }
        Ok(work)
    }

    /// A place for one program that begins with what this one has.
    pub(super) fn for_program(&self, place: PathBuf) -> io::Result<Self> {
        let (tree, target) = (WriteMode::Private, WriteMode::Private);
        let (place, owned) = match self.isolation {
            WriteIsolation::Overlays | WriteIsolation::Copies => (place, true),
            WriteIsolation::Jobs => (self.place.clone(), false),
        };
        if !owned {
            self.clear_results()?;
        }
        let below = Some(self.place.clone());
        let work = Self { place, below, isolation: self.isolation, tree, target, owned };
        work.make()?;
        if self.isolation == WriteIsolation::Copies {
            for name in ["tree", "target"] {
                copy(&self.upper(name), &work.upper(name))?;
            }
        }
        Ok(work)
    }

    fn make(&self) -> io::Result<()> {
        slot::make_private(&self.results())?;
        ["tree", "target"].into_iter().try_for_each(|name| slot::make_private(&self.upper(name)))
    }

    /// The directory with the results of test programs, on the host.
    pub(super) fn results(&self) -> PathBuf {
        self.place.join("results")
    }

    /// Empties the directory that test programs write to.
    pub(super) fn clear_results(&self) -> io::Result<()> {
        slot::remove(&self.results())?;
        slot::make_private(&self.results())
    }

    /// The directory with the writes to `tree` or `target`, on the host.
    pub(super) fn upper(&self, name: &str) -> PathBuf {
        self.place.join(name).join("upper")
    }

    /// Where writes to the tree can be found; `None` if the tree itself is written.
    pub(super) fn written(&self) -> Option<ChangedTree> {
        match (self.tree, self.isolation) {
            (WriteMode::Shared, _) => None,
            (WriteMode::Private, WriteIsolation::Overlays) => {
                Some(ChangedTree::Layer(self.upper("tree")))
            }
            (WriteMode::Private, WriteIsolation::Copies | WriteIsolation::Jobs) => {
                Some(ChangedTree::Copy(self.upper("tree")))
            }
        }
    }

    /// Whether this is a job, or one of the programs that begin with what a job has.
    pub(super) fn part(&self) -> ProgramScope {
        if self.below.is_some() { ProgramScope::SingleTest } else { ProgramScope::Whole }
    }

    /// The mounts of a program.
    pub(super) fn mounts(
        &self,
        shared: Shared<'_>,
        targets: Shared<'_>,
    ) -> (Vec<Bind>, Vec<Overlay>) {
        let (mut binds, mut overlays) = (Vec::new(), Vec::new());
        for (name, writes, source, target) in [
            ("tree", self.tree, shared.tree, targets.tree),
            ("target", self.target, shared.target, targets.target),
        ] {
            match (writes, self.isolation) {
                (WriteMode::Shared, _) => binds.push(Bind::new(source, target)),
                (WriteMode::Private, WriteIsolation::Overlays) => {
                    let below = self.below.iter().map(|place| place.join(name).join("upper"));
                    let lower = below.chain([source.to_owned()]).collect();
                    let layer = self.place.join(name);
                    overlays.push(Overlay {
                        lower,
                        layer,
                        target: target.to_owned(),
                        fallback: Fallback::Fail,
                    });
                }
                (WriteMode::Private, WriteIsolation::Copies | WriteIsolation::Jobs) => {
                    binds.push(Bind::new(self.upper(name), target));
                }
            }
        }
        (binds, overlays)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.owned {
            // What cannot be removed now is removed when the slot is cleared.
            let _ = slot::remove(&self.place);
        }
    }
}

/// Copies what is in a directory into another, with its times: cargo judges by them.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let data = entry.metadata()?;
        if data.is_dir() {
            slot::make_private(&target)?;
            copy(&source, &target)?;
            fs::set_permissions(&target, data.permissions())?;
        } else if data.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if data.is_file() {
            fs::copy(&source, &target)?;
        } else {
            continue;
        }
        let time = TimeSpec::new(data.mtime(), data.mtime_nsec());
        utimensat(AT_FDCWD, &target, &time, &time, UtimensatFlags::NoFollowSymlink)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_isolate_the_writes_of_programs() {
        let place = tempfile::tempdir().unwrap();
        let (tree, target) = (place.path().join("tree"), place.path().join("target"));
        for directory in [&tree, &target] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(tree.join("file"), "first").unwrap();
        fs::write(target.join("built"), "by somebody").unwrap();
        let shared = Shared { tree: &tree, target: &target };
        let (writes, isolation) = (WriteMode::Private, WriteIsolation::Copies);
        let job =
            Work::begin(place.path().join("job"), isolation, shared, writes, WriteMode::Shared)
                .unwrap();
        assert!(!job.upper("target").join("built").exists());
        fs::write(job.upper("target").join("built"), "by the job").unwrap();
        let first = job.for_program(place.path().join("one")).unwrap();
        let built = first.upper("target").join("built");
        assert_eq!(fs::read_to_string(&built).unwrap(), "by the job");
        fs::write(built, "by one").unwrap();
        fs::write(first.upper("tree").join("file"), "by one").unwrap();
        let second = job.for_program(place.path().join("two")).unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!(read(second.upper("target").join("built")), "by the job");
        assert_eq!(read(second.upper("tree").join("file")), "first");
        assert_eq!(read(tree.join("file")), "first");
        drop((first, second, job));
        assert!(!place.path().join("one").exists() && !place.path().join("job").exists());
    }
}
