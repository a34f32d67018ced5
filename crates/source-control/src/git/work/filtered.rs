//! Files that the repository stores through a filter (`filter=lfs`, `filter=git-crypt`).
//!
//! Filters are programs, so none runs here. A file that nobody touched since git wrote the index is as it was,
//! whatever its bytes are. One that was changed is refused: its raw content would be in the history for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::{Snapshot, WorkError};

use super::places::Places;
use super::private::PrivateDirectory;
use super::{index, paths, plain_file, trouble};
use crate::git::command::{Git, GitError, Input};

/// How many files are told.
const TOLD: usize = 5;
/// How much of an attributes file is read.
const MAX_ATTRIBUTES: u64 = 1024 * 1024;

/// Whether attributes may name a filter; without that nothing here is looked at.
pub(super) fn may_be_any(places: &Places, index: &[u8]) -> bool {
    let named = [places.worktree.join(".gitattributes"), places.common.join("info/attributes")];
    let names = |file: &PathBuf| match plain_file::read(file, MAX_ATTRIBUTES) {
        Ok(text) => has(&text, b"filter"),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    // In version 4 of an index, paths are cut short.
    let compressed = index.get(4..8) == Some(&4_u32.to_be_bytes());
    compressed || has(index, b"/.gitattributes") || named.iter().any(names)
}

fn has(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Whose attributes count.
#[derive(Clone, Copy)]
enum Attributes {
    OfWorktree,
    OfIndex,
}

/// The filter of each of these paths that has one.
fn filters(
    git: &Git,
    attributes: Attributes,
    wanted: &BTreeSet<Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, String>, GitError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let input: Vec<u8> = wanted.iter().flat_map(|path| [path.as_slice(), &[0]].concat()).collect();
    let cached = match attributes {
        Attributes::OfWorktree => None,
        Attributes::OfIndex => Some("--cached"),
    };
    let arguments = ["check-attr", "-z", "--stdin"].into_iter().chain(cached);
    let printed = git.run_with_input(arguments.chain(["filter"]), Input::Bytes(&input))?;
    let mut fields = printed.split(|byte| *byte == 0);
    let mut found = BTreeMap::new();
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        if ![&b"unspecified"[..], b"unset", b"set"].contains(&value) {
            found.insert(path.to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(found)
}

/// Those of these paths that are filtered, and untouched since git looked at them for this index. Its times are
/// compared to the nanosecond, which git itself does not do.
pub(super) fn untouched(
    git: &Git,
    worktree: &Path,
    index: &[u8],
    wanted: &BTreeSet<Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, index::Entry>, GitError> {
    let filtered = filters(git, Attributes::OfWorktree, wanted)?;
    if filtered.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut entries = index::entries(index).unwrap_or_default();
    entries.retain(|path, entry| {
        let place = worktree.join(OsStr::from_bytes(path));
        filtered.contains_key(path)
            && fs::symlink_metadata(place).is_ok_and(|found| entry.is_of(&found))
    });
    Ok(entries)
}

/// Puts back into a staged index what the worktree's own index has of filtered files that nobody touched.
/// Git had to read those that are as young as the index, and without their filter they look changed.
pub(super) fn put_back(staged: &Git, worktree: &Path, index: &[u8]) -> Result<(), GitError> {
    let own = index::entries(index).unwrap_or_default();
    let printed = staged.run(["ls-files", "-s", "-z", "--full-name"])?;
    let lines = printed.split(|byte| *byte == 0).filter_map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        Some((line.get(tab + 1..)?, line.get(..tab)?))
    });
    let changed = lines
        .filter(|(path, head)| own.get(*path).is_some_and(|own| own.head().as_bytes() != *head))
        .map(|(path, _)| path.to_vec())
        .collect();
    let mut input = Vec::new();
    for (path, entry) in untouched(staged, worktree, index, &changed)? {
        input.extend_from_slice(entry.head().as_bytes());
        input.push(b'\t');
        input.extend_from_slice(&path);
        input.push(0);
    }
    if input.is_empty() {
        return Ok(());
    }
    staged.run_with_input(["update-index", "-z", "--index-info"], Input::Bytes(&input)).map(drop)
}

/// An error if the work would bring raw content of a filtered file into the history. `objects` is a view on the
/// objects of the repository.
pub(super) fn refuse_raw(
    places: &Places,
    state: &Path,
    objects: &Git,
    work: &Snapshot,
) -> Result<(), WorkError> {
    let what = || format!("the files of {} cannot be recorded", places.worktree.display());
    let directory = PrivateDirectory::make(state).map_err(trouble(what()))?;
    let raw = raw(places, &directory, objects, work).map_err(trouble(what()))?;
    let Some((_, filter)) = raw.first() else { return Ok(()) };
    let mut named: Vec<String> =
        raw.iter().take(TOLD).map(|(path, _)| paths::shown(path)).collect();
    if raw.len() > TOLD {
        named.push(format!("and {} more", raw.len() - TOLD));
    }
    let why = format!(
        "the repository stores {} through the git filter `{filter}`, which does not run here: the raw \
         content would land; undo that change, and make it by hand where the filter is installed",
        named.join(", ")
    );
    Err(WorkError { what: what(), why, of_tree: true })
}

/// Filtered paths that get an object which its filter has not made.
fn raw(
    places: &Places,
    directory: &PrivateDirectory,
    objects: &Git,
    work: &Snapshot,
) -> Result<Vec<(Vec<u8>, String)>, GitError> {
    let between = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
    let trees = [work.merge_base_tree.as_str(), work.tree.as_str(), "--"];
    let mut brought = objects_of(&objects.run(between.into_iter().chain(trees))?);
    if work.head != work.merge_base {
        let range = format!("{}..{}", work.merge_base, work.head);
        let log = ["log", "-z", "--format=", "--raw", "--no-renames", "--no-abbrev", "-m"];
        brought.extend(objects_of(&objects.run(log.into_iter().chain([range.as_str(), "--"]))?));
    }
    let wanted = brought.iter().map(|(path, _)| path.clone()).collect();
    // By the attributes of the tree itself: the worktree may have others by now.
    let index = directory.path().join("index");
    let git = places.agent_git().with_env("GIT_INDEX_FILE", index);
    git.run_with_input(["read-tree", &work.tree], Input::File(directory.lock()))?;
    let filters = filters(&git, Attributes::OfIndex, &wanted)?;
    brought.retain(|(path, _)| filters.contains_key(path));
    if brought.is_empty() {
        return Ok(Vec::new());
    }
    // What the base has at any path was stored as it should be, and may be moved.
    let known = objects.run(["ls-tree", "-r", "-z", "--object-only", &work.merge_base_tree])?;
    let known: BTreeSet<&[u8]> = known.split(|byte| *byte == 0).collect();
    let mut raw = Vec::new();
    for (path, object) in
        brought.into_iter().filter(|(_, object)| !known.contains(object.as_bytes()))
    {
        let Some(filter) = filters.get(&path) else { continue };
        let text = objects.run(["cat-file", "blob", &object])?;
        if !is_stored_form(filter, &text) {
            raw.push((path, filter.clone()));
        }
    }
    Ok(raw)
}

/// The plain files and their objects that raw differences bring.
fn objects_of(printed: &[u8]) -> BTreeSet<(Vec<u8>, String)> {
    let mut fields = printed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut found = BTreeSet::new();
    while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<String> =
            String::from_utf8_lossy(head).split(' ').map(str::to_owned).collect();
        if let [_, mode, _, object, _] = words.as_slice()
            && mode.starts_with("100")
        {
            found.insert((path.to_owned(), object.clone()));
        }
    }
    found
}

/// Whether this is what a filter that we know makes of a file.
fn is_stored_form(filter: &str, text: &[u8]) -> bool {
    match filter {
        "lfs" => {
            text.is_empty() || (text.len() < 1024 && text.starts_with(b"version https://git-lfs"))
        }
        _ if filter == "git-crypt" || filter.starts_with("git-crypt-") => {
            text.is_empty() || text.starts_with(b"\0GITCRYPT\0")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_known_filter_makes_is_told_from_raw_content() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n";
        assert!(is_stored_form("lfs", pointer) && !is_stored_form("lfs", b"raw"));
        assert!(
            is_stored_form("git-crypt-key", b"\0GITCRYPT\0x")
                && !is_stored_form("git-crypt", b"raw")
        );
        assert!(!is_stored_form("other", pointer));
    }
}
