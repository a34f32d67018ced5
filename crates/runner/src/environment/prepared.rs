//! The result of a setup, stored for all runs and checks with the same dependencies.
//!
//! ```text
//! <state>/caches/<repository>/setup/<key>/
//!   tree/             what the setup added to the tree
//!   home/             its home
//!   environment.json  written last: which directories and files of `tree` there are
//! <state>/caches/<repository>/setup/<key>.lock   held while it is made, used or removed
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bailiwick_model::well_known::is_manifest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BaseTrust, Share};

/// How long an unused result is stored.
const MAX_UNUSED_AGE: Duration = Duration::from_hours(24 * 30);
/// As many directories as can be shared: each is a mount in every sandbox.
const MAX_DIRECTORIES: usize = 100;

/// A result that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    place: PathBuf,
    contents: Contents,
    in_use: UseLock,
}

/// Protects the result from removal.
#[derive(Debug, Clone)]
pub(crate) struct UseLock(#[expect(dead_code, reason = "it is held, not read")] Arc<File>);

impl PartialEq for UseLock {
    /// The file that holds the lock makes no difference.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UseLock {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// What a result depends on: the commands, the tree's manifests and lock files, the tools. For an untrusted tree,
/// all of its files, because a setup may run them.
pub(crate) fn key(
    setup: &[String],
    hosts: &[String],
    (tree, files, trust): (&Path, &[PathBuf], BaseTrust),
    stamp: &str,
) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(stamp.as_bytes());
    setup.iter().chain(hosts).for_each(|line| add(line.as_bytes()));
    let counts = |path: &&PathBuf| match trust {
        BaseTrust::Trusted => path.to_str().is_some_and(is_manifest),
        BaseTrust::Untrusted => true,
    };
    if trust == BaseTrust::Untrusted {
        add(b"untrusted");
    }
    let counted: BTreeSet<&PathBuf> = files.iter().filter(counts).collect();
    for path in counted {
        let file = tree.join(path);
        if fs::symlink_metadata(&file)?.is_file() {
            add(path.as_os_str().as_encoded_bytes());
            add(&fs::read(file)?);
        }
    }
    Ok(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

impl Prepared {
    /// The result for a key, if it exists and nothing creates or removes it.
    pub(crate) fn find(place: &Path) -> Option<Self> {
        let lock = open_lock(place).ok()?;
        lock.try_lock_shared().ok()?;
        Self::read(place, lock)
    }

    /// Whether there is one.
    pub(crate) fn is_there(place: &Path) -> bool {
        place.join("environment.json").is_file()
    }

    /// The same for the holder of the lock, which becomes shared.
    pub(crate) fn find_locked(place: &Path, lock: File) -> io::Result<Self> {
        lock.lock_shared()?;
        Self::read(place, lock).ok_or_else(|| io::Error::other("it was removed"))
    }

    fn read(place: &Path, lock: File) -> Option<Self> {
        let text = fs::read(place.join("environment.json")).ok()?;
        let contents = serde_json::from_slice(&text).ok()?;
        // When it was used last is the time of this directory.
        if let Ok(directory) = File::open(place) {
            let _ = directory.set_modified(SystemTime::now());
        }
        Some(Self { place: place.to_owned(), contents, in_use: UseLock(Arc::new(lock)) })
    }

    pub(crate) fn in_use(&self) -> UseLock {
        self.in_use.clone()
    }

    /// Waits until nothing else creates it.
    pub(crate) fn lock(place: &Path) -> io::Result<File> {
        let parent = place.parent().unwrap_or(place);
        fs::create_dir_all(parent)?;
        sweep(parent);
        let file = open_lock(place)?;
        file.lock()?;
        Ok(file)
    }

    /// Stores what a setup added to a tree, whose files were `tracked` before, and its home. The lock must be held.
    pub(crate) fn keep(
        place: &Path,
        tree: &Path,
        home: &Path,
        tracked: &BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        let fresh = place.with_extension("new");
        remove(&fresh)?;
        remove(place)?;
        fs::create_dir_all(fresh.join("tree"))?;
        let mut contents = Contents::default();
        added(tree, Path::new(""), tracked, &mut contents)?;
        if contents.directories.len() > MAX_DIRECTORIES {
            return Err(io::Error::other(format!(
                "it made {} separate directories, and {MAX_DIRECTORIES} can be shared",
                contents.directories.len()
            )));
        }
        for path in contents.directories.iter().chain(&contents.files) {
            let target = fresh.join("tree").join(path);
            fs::create_dir_all(target.parent().unwrap_or(&fresh))?;
            fs::rename(tree.join(path), target)?;
        }
        fs::rename(home, fresh.join("home"))?;
        fs::write(fresh.join("environment.json"), serde_json::to_vec(&contents)?)?;
        fs::rename(&fresh, place)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.place.join("home")
    }

    pub(crate) fn directories(&self) -> Vec<Share> {
        self.shares(&self.contents.directories)
    }

    pub(crate) fn files(&self) -> Vec<Share> {
        self.shares(&self.contents.files)
    }

    fn shares(&self, paths: &[PathBuf]) -> Vec<Share> {
        let share = |path: &PathBuf| Share {
            source: self.place.join("tree").join(path),
            place: path.clone(),
        };
        paths.iter().map(share).collect()
    }
}

/// Moves what a setup added to a tree into another one, whose files were `tracked` before. What an earlier
/// attempt has left there is replaced.
pub(crate) fn place(tree: &Path, into: &Path, tracked: &BTreeSet<PathBuf>) -> io::Result<()> {
    let mut contents = Contents::default();
    added(tree, Path::new(""), tracked, &mut contents)?;
    for path in contents.directories.iter().chain(&contents.files) {
        let target = into.join(path);
        remove(&target)?;
        match fs::rename(tree.join(path), &target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                return Err(io::Error::other(format!(
                    "{} is on another file system than our state",
                    into.display()
                )));
            }
            moved => moved?,
        }
    }
    Ok(())
}

fn open_lock(place: &Path) -> io::Result<File> {
    let path = place.with_extension("lock");
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// The results of setups of one repository, or of all.
pub fn kept_setups(state: &Path, repository: Option<&str>) -> io::Result<Vec<PathBuf>> {
    let caches = state.join("caches");
    let repositories = match repository {
        Some(name) => vec![caches.join(name)],
        None => directories(&caches)?,
    };
    let mut found = Vec::new();
    for repository in repositories {
        found.extend(directories(&repository.join("setup"))?);
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a run or a check uses the result of a setup now, or a setup creates it.
pub fn is_setup_in_use(place: &Path) -> io::Result<bool> {
    match open_lock(place)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the result of a setup; false if it is in use.
pub fn remove_setup(place: &Path) -> io::Result<bool> {
    let lock = open_lock(place)?;
    match lock.try_lock() {
        Ok(()) => remove(place).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn directories(place: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// The new entries below a directory: whole directories if everything in them is new.
fn added(
    tree: &Path,
    below: &Path,
    tracked: &BTreeSet<PathBuf>,
    contents: &mut Contents,
) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(tree.join(below))?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        if path == Path::new(".git") || entry.file_name() == "__pycache__" {
            continue;
        }
        let is_directory = entry.file_type()?.is_dir();
        let known = match is_directory {
            true => tracked.range(path.clone()..).next().is_some_and(|one| one.starts_with(&path)),
            false => tracked.contains(&path),
        };
        match (known, is_directory) {
            (true, true) => added(tree, &path, tracked, contents)?,
            (true, false) => {}
            (false, true) => contents.directories.push(path),
            (false, false) => contents.files.push(path),
        }
    }
    Ok(())
}

/// Removes results that have not been used for long.
fn sweep(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    for entry in entries.flatten() {
        let old = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if old.is_some_and(|age| age > MAX_UNUSED_AGE) && entry.path().is_dir() {
            // What cannot be removed now is removed another time.
            let _ = remove_setup(&entry.path());
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(path),
        // Go creates its modules read-only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            super::open_up(path)?;
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_directories_are_stored_whole_and_other_files_one_by_one() {
        let scratch = tempfile::tempdir().unwrap();
        let (tree, home) = (scratch.path().join("tree"), scratch.path().join("home"));
        for directory in
            ["tree/packages/a/node_modules/x", "tree/node_modules/.bin", "tree/.git", "home"]
        {
            fs::create_dir_all(scratch.path().join(directory)).unwrap();
        }
        for file in ["package.json", "packages/a/index.js", "packages/a/built.js", "node_modules/m"]
        {
            fs::write(tree.join(file), "x").unwrap();
        }
        let tracked = ["package.json", "packages/a/index.js"].map(PathBuf::from).into();
        let place = scratch.path().join("setup/key");
        let lock = Prepared::lock(&place).unwrap();
        assert_eq!(Prepared::find(&place), None, "the setup has not finished");
        Prepared::keep(&place, &tree, &home, &tracked).unwrap();
        let stored = Prepared::find_locked(&place, lock).unwrap();
        assert_eq!(
            Prepared::find(&place),
            Some(stored.clone()),
            "others can use it at the same time"
        );
        let places = |shares: Vec<Share>| -> Vec<String> {
            shares.iter().map(|share| share.place.display().to_string()).collect()
        };
        assert_eq!(places(stored.directories()), ["node_modules", "packages/a/node_modules"]);
        assert_eq!(places(stored.files()), ["packages/a/built.js"]);
        assert!(stored.directories().iter().all(|share| share.source.is_dir()));
        assert!(tree.join("package.json").is_file() && !tree.join("node_modules").exists());
        assert!(is_setup_in_use(&place).unwrap() && !remove_setup(&place).unwrap());
        drop(stored);
        assert!(!is_setup_in_use(&place).unwrap() && remove_setup(&place).unwrap());
        assert!(!place.exists() && Prepared::find(&place).is_none());
    }

    #[test]
    fn key_depends_on_commands_and_manifests_and_not_on_sources() {
        let tree = tempfile::tempdir().unwrap();
        let files = ["package-lock.json", "index.js"].map(PathBuf::from);
        let setup = ["npm ci".to_owned()];
        let write = |name: &str, text: &str| fs::write(tree.path().join(name), text).unwrap();
        write("package-lock.json", "1");
        write("index.js", "1");
        let trusting = |setup: &[String], trust: BaseTrust| {
            key(setup, &[], (tree.path(), &files, trust), "tools").unwrap()
        };
        let keyed = |setup: &[String]| trusting(setup, BaseTrust::Trusted);
        let original = keyed(&setup);
        let foreign = trusting(&setup, BaseTrust::Untrusted);
        assert_ne!(foreign, original, "the result for a fork is for the fork only");
        write("index.js", "2");
        assert_eq!(keyed(&setup), original);
        assert_ne!(trusting(&setup, BaseTrust::Untrusted), foreign);
        assert_ne!(keyed(&["npm install".to_owned()]), original);
        write("package-lock.json", "2");
        assert_ne!(keyed(&setup), original);
    }
}
