//! Finds new files that a path limit forbids, and moves them to the run's directory.
//!
//! Mounts protect what is tracked. Only names that are new in a writable directory can appear at all.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bailiwick_lifecycle::ports::{ForbiddenFile, ForbiddenFiles, WorkError};
use bailiwick_model::well_known::{is_build_output, is_rule};
use bailiwick_policy::PathPolicy;
use bailiwick_policy::path_policy::{Tracked, TrackedKind};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_source_control::Repository;
use bailiwick_source_control::git::{ignore_rules, new_files, untracked};
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, open, openat2, renameat};
use rustix::io::Errno;

use super::sandbox_plan;

/// How many links can lead to each other.
const MAX_LINKS: usize = 16;
/// How many files a note names.
const NAMED: usize = 10;

/// The new files of one worktree.
pub struct NewFiles {
    worktree: PathBuf,
    /// Where they are moved, each into a directory of its own.
    removed: PathBuf,
    /// The file with the ignore rules of the base.
    ignored: PathBuf,
    paths: PathPolicy,
    /// The files of the base.
    tracked: BTreeSet<PathBuf>,
    /// What links with rules would lead to if it were there, and the capability that forbids it.
    missing_rules: Vec<ForbiddenFile>,
    /// What was there before the agent first started: the setup's.
    before: BTreeSet<PathBuf>,
    /// How many were moved; locked during a scan.
    moved: Mutex<u64>,
    /// What was written outside of the scope.
    scratch: PathBuf,
    /// The paths in `scratch` that were reported.
    given: Mutex<BTreeSet<String>>,
}

/// Where the files that belong to an agent's limits are.
pub struct Places {
    /// Gets what is removed.
    pub removed: PathBuf,
    /// Gets the ignore rules of the base.
    pub ignored: PathBuf,
    /// Has what was written outside of the scope.
    pub scratch: PathBuf,
}

impl NewFiles {
    /// The new files of a run's worktree.
    pub fn new(
        repository: &Repository,
        base: &str,
        worktree: PathBuf,
        run: &RunDirectory,
        paths: PathPolicy,
    ) -> Result<Self, WorkError> {
        let places = Places {
            removed: run.removed(),
            ignored: run.ignore_rules(),
            scratch: run.written_outside_scope(),
        };
        let mut files = Self::from_now_on(repository, Some(base), worktree, places, paths)?;
        files.before = files.known(&run.files_before())?;
        Ok(files)
    }

    /// The files of a worktree that are new from now on. Without a base nothing is ignored.
    pub fn from_now_on(
        repository: &Repository,
        base: Option<&str>,
        worktree: PathBuf,
        places: Places,
        paths: PathPolicy,
    ) -> Result<Self, WorkError> {
        let Places { removed, ignored, scratch } = places;
        let rules = match base {
            Some(base) => ignore_rules(&repository.git(), base).map_err(failed)?,
            None => Vec::new(),
        };
        std::fs::write(&ignored, rules).map_err(failed)?;
        let tracked = match base {
            Some(base) => sandbox_plan::tracked(repository, base).map_err(failed)?,
            None => Vec::new(),
        };
        let mut files = Self {
            removed,
            ignored,
            missing_rules: missing_rules(&tracked, &worktree, &paths),
            tracked: tracked
                .into_iter()
                .filter(|file| file.kind != TrackedKind::Submodule)
                .map(|file| file.path)
                .collect(),
            paths,
            before: BTreeSet::new(),
            moved: Mutex::new(0),
            given: Mutex::new(BTreeSet::new()),
            scratch,
            worktree,
        };
        files.before = files.untracked()?.into_iter().collect();
        *files.given.get_mut().unwrap_or_else(PoisonError::into_inner) =
            outside(&files.worktree, &files.scratch, &files.ignored)?.into_iter().collect();
        Ok(files)
    }

    /// What was there before the first attempt. An attempt that was killed leaves forbidden files behind,
    /// which must not count as the setup's in the next one.
    fn known(&self, record: &Path) -> Result<BTreeSet<PathBuf>, WorkError> {
        match std::fs::read(record) {
            Ok(text) => {
                let names = text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
                Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let found = self.untracked()?;
                let names = found.iter().cloned().map(|path| path.into_os_string().into_vec());
                let text = names.collect::<Vec<_>>().join(&0);
                // In one step: half a list would make files of the setup forbidden.
                let half = record.with_extension("half");
                std::fs::write(&half, text).map_err(failed)?;
                std::fs::rename(&half, record).map_err(failed)?;
                Ok(found.into_iter().collect())
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn untracked(&self) -> Result<Vec<PathBuf>, WorkError> {
        untracked(&self.worktree, &self.ignored).map_err(failed)
    }
}

impl ForbiddenFiles for NewFiles {
    fn remove(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut removed, mut trouble) = (Vec::new(), None);
        let new = self.untracked()?.into_iter().filter(|file| !self.before.contains(file));
        let forbidden = new.filter_map(|file| {
            let path = file.to_string_lossy().into_owned();
            let was_file = |path: &str| self.tracked.contains(Path::new(path));
            let forbidden = self.paths.forbids_beside(path.trim_end_matches('/'), was_file);
            let capability = forbidden?.to_owned();
            Some((file, ForbiddenFile { path, capability }))
        });
        // Git may ignore what such a link leads to.
        let rules = self.missing_rules.iter().map(|rule| (PathBuf::from(&rule.path), rule.clone()));
        for (file, ForbiddenFile { path, capability }) in forbidden.chain(rules) {
            match move_away(&self.worktree, &file, &self.removed, &mut moved) {
                Ok(false) => {}
                Ok(true) => removed.push(ForbiddenFile { path, capability }),
                // The others are moved all the same.
                Err(error) => {
                    trouble = Some(failed(format!("{path} cannot be moved away: {error}")));
                }
            }
        }
        trouble.map_or(Ok(removed), Err)
    }

    fn left_out(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
        let mut reported = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let found = outside(&self.worktree, &self.scratch, &self.ignored)?;
        let new = found.into_iter().filter(|path| reported.insert(path.clone()));
        let limit = |path: &str| self.paths.forbids(path.trim_end_matches('/'));
        let forbidden = |path: String| {
            let capability = limit(&path).unwrap_or("scope::files-whitelist").to_owned();
            ForbiddenFile { path, capability }
        };
        Ok(new.map(forbidden).collect())
    }
}

/// The missing targets of links that instruct agents. A program that creates such a target writes a rule.
fn missing_rules(tracked: &[Tracked], worktree: &Path, paths: &PathPolicy) -> Vec<ForbiddenFile> {
    let links = tracked.iter().filter(|file| file.kind == TrackedKind::Link);
    let missing = links.filter_map(|link| {
        let text = link.path.to_str().filter(|text| is_rule(text))?;
        let capability = paths.forbids(text)?.to_owned();
        let path = missing_target(worktree, &link.path)?.to_str()?.to_owned();
        Some(ForbiddenFile { path, capability })
    });
    missing.collect()
}

/// What a link of a worktree leads to, from its root, if it is not there.
fn missing_target(worktree: &Path, link: &Path) -> Option<PathBuf> {
    let mut place = worktree.join(link);
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&place) {
            Ok(target) => place = plain(&place.parent()?.join(target)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return place.strip_prefix(worktree).ok().map(Path::to_owned);
            }
            Err(_) => return None,
        }
    }
    None
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// The files that an agent has made outside of its scope, which do not land: without what the base ignores
/// and what is known as build output.
pub fn left_out(worktree: &Path, run: &RunDirectory) -> Result<Vec<String>, WorkError> {
    match run.ignore_rules().is_file() {
        true => outside(worktree, &run.written_outside_scope(), &run.ignore_rules()),
        // It has no limit on paths, or has never started.
        false => Ok(Vec::new()),
    }
}

/// What is printed about them.
pub fn left_out_note(files: &[String]) -> String {
    let named = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("left out: {named}{more} (outside of the agent's scope: not part of the change)")
}

fn outside(worktree: &Path, scratch: &Path, ignored: &Path) -> Result<Vec<String>, WorkError> {
    match std::fs::read_dir(scratch).map(|mut entries| entries.next().is_none()) {
        Ok(true) => return Ok(Vec::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
        Ok(false) => {}
    }
    let new = |path: &PathBuf| worktree.join(path).symlink_metadata().is_err();
    let found = new_files(worktree, scratch, ignored).map_err(failed)?.into_iter().filter(new);
    let names = found.map(|path| path.to_string_lossy().into_owned());
    Ok(names.filter(|path| !is_build_output(path)).collect())
}

fn failed(error: impl std::fmt::Display) -> WorkError {
    WorkError {
        what: "new files of the worktree cannot be examined".to_owned(),
        why: error.to_string(),
        caused_by_agent: false,
    }
}

/// Moves a file, or what the agent has put there meanwhile. No link is followed: the agent may run while we
/// move. Returns whether there was anything.
fn move_away(worktree: &Path, file: &Path, to: &Path, moved: &mut u64) -> Result<bool, Errno> {
    let Some(name) = file.file_name() else { return Ok(false) };
    let directory = file.parent().filter(|above| !above.as_os_str().is_empty());
    let root = directory_at(worktree)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let directory = directory.unwrap_or(Path::new("."));
    let from = match openat2(&root, directory, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        opened => opened?,
    };
    match mkdirat(rustix::fs::CWD, to, Mode::RWXU) {
        Err(Errno::EXIST) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    let to = directory_at(to)?;
    let place = loop {
        *moved += 1;
        match mkdirat(&to, moved.to_string(), Mode::RWXU) {
            // From an earlier attempt.
            Err(Errno::EXIST) => {}
            result => break result.map(|()| Path::new(&moved.to_string()).join(name))?,
        }
    };
    let renamed = renameat(&from, name, &to, &place).or_else(|error| match error {
        // The directory is the agent's, and so is its mode.
        Errno::ACCESS | Errno::PERM => {
            open_for_owner(&from)?;
            renameat(&from, name, &to, &place)
        }
        _ => Err(error),
    });
    match renamed {
        Err(Errno::NOENT) => Ok(false),
        renamed => renamed.map(|()| true),
    }
}

/// Makes one of our open directories writable.
fn open_for_owner(directory: &OwnedFd) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).map_err(|_| Errno::ACCESS)
}

fn directory_at(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
