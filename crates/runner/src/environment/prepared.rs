//! The result of a setup, kept for all runs and checks with the same dependencies.
//!
//! ```text
//! <state>/caches/<repository>/setup/<key>/
//!   tree/             what the setup added to the tree
//!   home/             its home
//!   environment.json  written last: which directories and files of `tree` there are
//! <state>/caches/<repository>/setup/<key>.lock   held while it is made
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bailiwick_model::well_known::is_manifest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Share;

/// How long a result is kept that nobody uses.
const KEPT: Duration = Duration::from_hours(24 * 30);
/// As many directories as can be shared: each is a mount in every sandbox.
const MAX_DIRECTORIES: usize = 100;

/// A result that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    place: PathBuf,
    contents: Contents,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// What a result depends on: the commands, the tree's manifests and lock files, the tools.
pub(crate) fn key(
    setup: &[String],
    hosts: &[String],
    files: &[PathBuf],
    tree: &Path,
    stamp: &str,
) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(stamp.as_bytes());
    setup.iter().chain(hosts).for_each(|line| add(line.as_bytes()));
    let manifests: BTreeSet<&PathBuf> =
        files.iter().filter(|path| path.to_str().is_some_and(is_manifest)).collect();
    for path in manifests {
        let file = tree.join(path);
        if fs::symlink_metadata(&file)?.is_file() {
            add(path.as_os_str().as_encoded_bytes());
            add(&fs::read(file)?);
        }
    }
    Ok(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

impl Prepared {
    /// The result for a key, if there is one.
    pub(crate) fn find(place: &Path) -> Option<Self> {
        let text = fs::read(place.join("environment.json")).ok()?;
        let contents = serde_json::from_slice(&text).ok()?;
        // When it was used last is the time of this directory.
        if let Ok(directory) = File::open(place) {
            let _ = directory.set_modified(SystemTime::now());
        }
        Some(Self { place: place.to_owned(), contents })
    }

    /// Waits until nobody else makes it.
    pub(crate) fn lock(place: &Path) -> io::Result<File> {
        let parent = place.parent().unwrap_or(place);
        fs::create_dir_all(parent)?;
        sweep(parent);
        let path = place.with_extension("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// Keeps what a setup added to a tree, whose files were `tracked` before, and its home.
    pub(crate) fn keep(
        place: &Path,
        tree: &Path,
        home: &Path,
        tracked: &BTreeSet<PathBuf>,
    ) -> io::Result<Self> {
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
        fs::rename(&fresh, place)?;
        Ok(Self { place: place.to_owned(), contents })
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

/// What is new below a directory: whole directories where nothing in them was there before.
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

/// Removes results that nobody has used for long.
fn sweep(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    for entry in entries.flatten() {
        let old = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if old.is_some_and(|age| age > KEPT) && entry.path().is_dir() {
            // What cannot be removed now is removed another time.
            let _ = remove(&entry.path());
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        // Go makes its modules read-only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            crate::checks::open_up(path)?;
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
    fn what_is_new_is_kept_in_whole_directories_and_the_rest_file_by_file() {
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
        let kept = Prepared::keep(&place, &tree, &home, &tracked).unwrap();
        drop(lock);
        assert_eq!(Prepared::find(&place), Some(kept.clone()));
        let places = |shares: Vec<Share>| -> Vec<String> {
            shares.iter().map(|share| share.place.display().to_string()).collect()
        };
        assert_eq!(places(kept.directories()), ["node_modules", "packages/a/node_modules"]);
        assert_eq!(places(kept.files()), ["packages/a/built.js"]);
        assert!(kept.directories().iter().all(|share| share.source.is_dir()));
        assert!(tree.join("package.json").is_file() && !tree.join("node_modules").exists());
    }

    #[test]
    fn a_key_depends_on_commands_and_manifests_and_not_on_sources() {
        let tree = tempfile::tempdir().unwrap();
        let files = ["package-lock.json", "index.js"].map(PathBuf::from);
        let setup = ["npm ci".to_owned()];
        let write = |name: &str, text: &str| fs::write(tree.path().join(name), text).unwrap();
        write("package-lock.json", "1");
        write("index.js", "1");
        let keyed = |setup: &[String]| key(setup, &[], &files, tree.path(), "tools").unwrap();
        let first = keyed(&setup);
        write("index.js", "2");
        assert_eq!(keyed(&setup), first);
        assert_ne!(keyed(&["npm install".to_owned()]), first);
        write("package-lock.json", "2");
        assert_ne!(keyed(&setup), first);
    }
}
