//! The times of a tree's files, which cargo judges by.
//!
//! Cargo treats a file as unchanged when its time is not later than the build that used it. A tree is written again
//! for each verification, so every file would look changed, and everything would be built again. So a file gets the
//! time that it had in the slot's last tree, but only if that cannot hide a change:
//!
//! - A file that is new or not the same gets the time of this moment. The slot's lock is ours and nothing
//!   runs in it, so that is later than every build in its cache; should the clock have gone back, it is
//!   made to be.
//! - Only the last tree counts. A file that keeps its time has had this content in every tree since it
//!   got that time, so no later build used another one.
//! - Not all that is read while building is known to cargo: a macro may read any file. So with a changed
//!   `.rs` file its whole package is new, and with any other change (a file of another kind, a link)
//!   everything is. What is left is a macro that reads another package's `.rs` files behind cargo's back.
//! - What ran may have changed files. When the tree is cleared, one whose inode changed since is
//!   forgotten, and everything is if files were added. After a kill nothing is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The coarsest step of the clock that files get their times from.
const TICK: Duration = Duration::from_millis(20);

/// The record of a slot's last tree, outside of the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SlotRecord {
    /// Nothing was built in the slot after this.
    until: Time,
    files: BTreeMap<String, (Content, Time)>,
}

/// Seconds and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Time(i64, i64);

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Content {
    /// The digest of its text, and whether it can be run.
    Plain(String, bool),
    /// The target of the link.
    Link(String),
}

/// A tree whose file times are set.
#[derive(Debug)]
pub(super) struct TimedTree {
    /// Content, the time it got, and when its inode last changed; `None` where names are no text.
    files: Option<BTreeMap<String, (Content, Time, Time)>>,
}

/// Sets the times of a tree's files as in `record`.
pub(super) fn set_times(tree: &Path, record: &Path) -> io::Result<TimedTree> {
    let last = read(record);
    let contents = contents(tree)?;
    let now = Time::from(SystemTime::now()).max(last.until.next());
    // A process that is killed from here on leaves only this.
    write(record, &SlotRecord { until: now, files: BTreeMap::new() })?;
    let Some(contents) = contents else {
        return Ok(TimedTree { files: None });
    };
    let before: BTreeMap<&str, &Content> =
        last.files.iter().map(|(path, (content, _))| (path.as_str(), content)).collect();
    let fresh = TouchedFiles::between(&before, &contents);
    let mut files = BTreeMap::new();
    for (path, content) in contents {
        let old = last.files.get(&path).filter(|_| !fresh.covers(&path)).map(|(_, time)| *time);
        let file = tree.join(&path);
        set(&file, old.unwrap_or(now))?;
        let data = fs::symlink_metadata(&file)?;
        files.insert(path, (content, Time::modified(&data), Time::changed(&data)));
    }
    // Later builds and changes then have later times.
    std::thread::sleep(TICK);
    Ok(TimedTree { files: Some(files) })
}

impl TimedTree {
    /// Records the unchanged files of the tree before it is removed.
    pub(super) fn keep(self, tree: &Path, record: &Path) -> io::Result<()> {
        let mut slot_record =
            SlotRecord { until: Time::from(SystemTime::now()), files: BTreeMap::new() };
        let files = self.files.unwrap_or_default();
        if !was_added_to(tree, &files)? {
            for (path, (content, time, changed)) in files {
                let data = fs::symlink_metadata(tree.join(&path));
                let same = data.is_ok_and(|data| {
                    Time::modified(&data) == time && Time::changed(&data) == changed
                });
                if same {
                    slot_record.files.insert(path, (content, time));
                }
            }
        }
        write(record, &slot_record)
    }
}

/// The files that get a new modification time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TouchedFiles {
    Everything,
    /// All files of these packages.
    Packages {
        fresh: BTreeSet<PathBuf>,
        all: BTreeSet<PathBuf>,
    },
}

impl TouchedFiles {
    fn between(before: &BTreeMap<&str, &Content>, now: &BTreeMap<String, Content>) -> Self {
        let manifest =
            |path: &str| Path::new(path).file_name().is_some_and(|name| name == "Cargo.toml");
        let place = |path: &String| Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        let all: BTreeSet<PathBuf> = now.keys().filter(|path| manifest(path)).map(place).collect();
        let changed = now
            .iter()
            .filter(|(path, content)| before.get(path.as_str()) != Some(content))
            .map(|(path, _)| path.as_str());
        let removed = before.keys().copied().filter(|path| !now.contains_key(*path));
        let mut fresh = BTreeSet::new();
        for path in changed.chain(removed) {
            let plain = |content: Option<&Content>| !matches!(content, Some(Content::Link(_)));
            let source =
                path.ends_with(".rs") && plain(before.get(path).copied()) && plain(now.get(path));
            match package(&all, path) {
                Some(package) if source => fresh.insert(package),
                Some(_) | None => return Self::Everything,
            };
        }
        Self::Packages { fresh, all }
    }

    fn covers(&self, path: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Packages { fresh, all } => {
                package(all, path).is_some_and(|package| fresh.contains(&package))
            }
        }
    }
}

/// The nearest directory above a file that has a manifest.
fn package(all: &BTreeSet<PathBuf>, path: &str) -> Option<PathBuf> {
    Path::new(path).ancestors().skip(1).find(|place| all.contains(*place)).map(Path::to_owned)
}

/// Whether a file belongs to git: it differs in each tree, and keeps the time of its writing.
fn of_git(path: &Path) -> bool {
    path.starts_with(".git")
}

/// Whether there are new files, except those of cargo and git.
fn was_added_to(tree: &Path, files: &BTreeMap<String, (Content, Time, Time)>) -> io::Result<bool> {
    let mut added = false;
    walk(tree, &mut |path, _| {
        added |= match path.to_str() {
            Some(text) => {
                !files.contains_key(text) && !text.ends_with("Cargo.lock") && !of_git(path)
            }
            None => true,
        };
        Ok(())
    })?;
    Ok(added)
}

/// The content of each file; `None` if a name is not UTF-8.
fn contents(tree: &Path) -> io::Result<Option<BTreeMap<String, Content>>> {
    let mut found = Some(BTreeMap::new());
    walk(tree, &mut |path, data| {
        if of_git(path) {
            return Ok(());
        }
        let content = if data.is_symlink() {
            fs::read_link(tree.join(path))?.to_str().map(|target| Content::Link(target.to_owned()))
        } else if data.is_file() {
            let digest = Sha256::digest(fs::read(tree.join(path))?);
            let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(Content::Plain(digest, data.mode() & 0o111 != 0))
        } else {
            None
        };
        match (path.to_str(), content, &mut found) {
            (Some(path), Some(content), Some(found)) => {
                drop(found.insert(path.to_owned(), content))
            }
            _ => found = None,
        }
        Ok(())
    })?;
    Ok(found)
}

pub(super) type Visit<'a> = dyn FnMut(&Path, &fs::Metadata) -> io::Result<()> + 'a;

/// Visits everything but directories, by its path below `tree`.
pub(super) fn walk(tree: &Path, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(tree.join(&place))? {
            let entry = entry?;
            let (path, data) = (place.join(entry.file_name()), entry.metadata()?);
            if data.is_dir() {
                open.push(path);
            } else {
                visit(&path, &data)?;
            }
        }
    }
    Ok(())
}

fn set(file: &Path, time: Time) -> io::Result<()> {
    let time = TimeSpec::new(time.0, time.1);
    Ok(utimensat(AT_FDCWD, file, &time, &time, UtimensatFlags::NoFollowSymlink)?)
}

/// The stored record; empty if it cannot be read.
fn read(record: &Path) -> SlotRecord {
    fs::read(record).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn write(record: &Path, slot_record: &SlotRecord) -> io::Result<()> {
    let fresh = record.with_extension("new");
    fs::write(&fresh, serde_json::to_vec(slot_record)?)?;
    fs::rename(fresh, record)
}

impl Time {
    fn modified(data: &fs::Metadata) -> Self {
        Self(data.mtime(), data.mtime_nsec())
    }

    fn changed(data: &fs::Metadata) -> Self {
        Self(data.ctime(), data.ctime_nsec())
    }

    /// The very next.
    fn next(self) -> Self {
        if self.1 < 999_999_999 { Self(self.0, self.1 + 1) } else { Self(self.0 + 1, 0) }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Content> {
        let content = |text: &str| match text.strip_prefix("-> ") {
            Some(target) => Content::Link(target.to_owned()),
            None => Content::Plain(text.to_owned(), false),
        };
        files.iter().map(|(path, text)| ((*path).to_owned(), content(text))).collect()
    }

    fn fresh(before: &[(&str, &str)], after: &[(&str, &str)]) -> Vec<String> {
        let (before, after) = (tree(before), tree(after));
        let before = before.iter().map(|(path, content)| (path.as_str(), content)).collect();
        let fresh = TouchedFiles::between(&before, &after);
        after.into_keys().filter(|path| fresh.covers(path)).collect()
    }

    const TREE: [(&str, &str); 7] = [
        ("Cargo.toml", "workspace"),
        ("a/Cargo.toml", "a"),
        ("a/src/lib.rs", "a"),
        ("a/src/data.txt", "a"),
        ("b/Cargo.toml", "b"),
        ("b/src/lib.rs", "b"),
        ("link.rs", "-> b/src/lib.rs"),
    ];

    fn with(path: &str, text: &str) -> Vec<(&'static str, String)> {
        let replace = |(other, old): (&'static str, &str)| {
            (other, if other == path { text.to_owned() } else { old.to_owned() })
        };
        TREE.into_iter().map(replace).collect()
    }

    #[test]
    fn changed_source_makes_its_package_fresh_and_other_files_make_all_fresh() {
        assert_eq!(fresh(&TREE, &TREE), Vec::<String>::new());
        assert_eq!(fresh(&[], &TREE).len(), TREE.len());
        for (path, text, count) in [
            ("a/src/lib.rs", "other", 3),
            ("b/src/lib.rs", "other", 2),
            ("b/src/lib.rs", "-> ../a", 7),
            ("a/src/data.txt", "other", 7),
            ("b/Cargo.toml", "other", 7),
            ("link.rs", "-> a/src/lib.rs", 7),
            ("link.rs", "text", 7),
        ] {
            let after = with(path, text);
            let after: Vec<(&str, &str)> =
                after.iter().map(|(path, text)| (*path, text.as_str())).collect();
            assert_eq!(fresh(&TREE, &after).len(), count, "{path} {text}");
        }
    }

    #[test]
    fn added_and_removed_files_count_as_changed() {
        let added = |path| [&TREE[..], &[(path, "more")]].concat();
        assert_eq!(fresh(&TREE, &added("b/tests/it.rs")).len(), 3);
        assert_eq!(fresh(&added("b/tests/it.rs"), &TREE).len(), 2);
        assert_eq!(fresh(&TREE, &added("README.md")).len(), 8);
        assert_eq!(fresh(&added("README.md"), &TREE).len(), 7);
        // A source outside of every package may belong to any of them.
        let bare = [("x.rs", "x"), ("y.rs", "y")];
        assert_eq!(fresh(&bare, &[("x.rs", "x"), ("y.rs", "z")]).len(), 2);
    }
}
