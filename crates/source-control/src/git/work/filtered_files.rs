//! Files with a git filter (`filter=lfs`, `filter=git-crypt`).
//!
//! Filters are programs, so they do not run here. A file that is unmodified since git wrote the index
//! counts as unchanged, whatever its bytes are. A changed one is refused: its raw content would stay in
//! the history.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{Snapshot, WorkError};

use super::escaped_path::escape_path;
use super::scratch_directory::ScratchDirectory;
use super::worktree_paths::WorktreePaths;
use super::{index_file, regular_file, work_error};
use crate::git::command::{Git, GitError, Input};

/// How many files an error lists.
const MAX_LISTED_FILES: usize = 5;
const MAX_ATTRIBUTES_BYTES: u64 = 1024 * 1024;

/// Whether attributes may name a filter; otherwise no file has to be checked.
pub(super) fn may_exist(paths: &WorktreePaths, index: &[u8]) -> bool {
    let named = [paths.worktree.join(".gitattributes"), paths.common_dir.join("info/attributes")];
    let names = |file: &PathBuf| match regular_file::read(file, MAX_ATTRIBUTES_BYTES) {
        Ok(text) => has(&text, b"filter"),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    // Version 4 of the index format compresses paths.
    let compressed = index.get(4..8) == Some(&4_u32.to_be_bytes());
    compressed || has(index, b"/.gitattributes") || named.iter().any(names)
}

fn has(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Where attributes are read from.
#[derive(Clone, Copy)]
enum Attributes {
    OfWorktree,
    OfIndex,
}

/// The filters of these paths.
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
    let stdout = git.run_with_input(arguments.chain(["filter"]), Input::Bytes(&input))?;
    let mut fields = stdout.split(|byte| *byte == 0);
    let mut found = BTreeMap::new();
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        if ![&b"unspecified"[..], b"unset", b"set"].contains(&value) {
            found.insert(path.to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(found)
}

/// The paths with a filter that are unmodified since git wrote this index. Times are compared to the
/// nanosecond, which git itself does not do.
pub(super) fn unmodified(
    git: &Git,
    worktree: &Path,
    index: &[u8],
    wanted: &BTreeSet<Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, index_file::Entry>, GitError> {
    let filtered = filters(git, Attributes::OfWorktree, wanted)?;
    if filtered.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut entries = index_file::entries(index).unwrap_or_default();
    entries.retain(|path, entry| {
        let full_path = worktree.join(OsStr::from_bytes(path));
        filtered.contains_key(path)
            && fs::symlink_metadata(full_path).is_ok_and(|found| entry.is_of(&found))
    });
    Ok(entries)
}

/// Restores unmodified files with a filter in a staged index: git reads files that are as new as the
/// index, and without the filter they look changed.
pub(super) fn restore_unmodified(
    staged: &Git,
    worktree: &Path,
    index: &[u8],
) -> Result<(), GitError> {
    let own = index_file::entries(index).unwrap_or_default();
    let stdout = staged.run(["ls-files", "-s", "-z", "--full-name"])?;
    let lines = stdout.split(|byte| *byte == 0).filter_map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        Some((line.get(tab + 1..)?, line.get(..tab)?))
    });
    let changed = lines
        .filter(|(path, head)| own.get(*path).is_some_and(|own| own.head().as_bytes() != *head))
        .map(|(path, _)| path.to_vec())
        .collect();
    let mut input = Vec::new();
    for (path, entry) in unmodified(staged, worktree, index, &changed)? {
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

/// Returns an error if the work would bring the raw content of a filtered file into the history. `objects` is
/// git that sees the objects of the repository.
pub(super) fn require_stored_form(
    paths: &WorktreePaths,
    state: &Path,
    objects: &Git,
    work: &Snapshot,
) -> Result<(), WorkError> {
    let what = || format!("the files of {} cannot be recorded", paths.worktree.display());
    let directory = ScratchDirectory::create(state).map_err(work_error(what()))?;
    let raw = raw_files(paths, &directory, objects, work).map_err(work_error(what()))?;
    let Some((_, filter)) = raw.first() else { return Ok(()) };
    let mut named: Vec<String> =
        raw.iter().take(MAX_LISTED_FILES).map(|(path, _)| escape_path(path)).collect();
    if raw.len() > MAX_LISTED_FILES {
        named.push(format!("and {} more", raw.len() - MAX_LISTED_FILES));
    }
    let why = format!(
        "the repository stores {} through the git filter `{filter}`, which does not run here: the raw \
         content would land; undo that change, and make it by hand where the filter is installed",
        named.join(", ")
    );
    Err(WorkError { what: what(), why, caused_by_agent: true })
}

/// Paths with a filter whose new content the filter has not written, each with the filter.
fn raw_files(
    paths: &WorktreePaths,
    directory: &ScratchDirectory,
    objects: &Git,
    work: &Snapshot,
) -> Result<Vec<(Vec<u8>, String)>, GitError> {
    let between = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
    let trees = [work.merge_base_tree.as_str(), work.tree.as_str(), "--"];
    let mut new_objects = objects_of(&objects.run(between.into_iter().chain(trees))?);
    if work.head != work.merge_base {
        let range = format!("{}..{}", work.merge_base, work.head);
        let log = ["log", "-z", "--format=", "--raw", "--no-renames", "--no-abbrev", "-m"];
        new_objects
            .extend(objects_of(&objects.run(log.into_iter().chain([range.as_str(), "--"]))?));
    }
    let wanted = new_objects.iter().map(|(path, _)| path.clone()).collect();
    // The attributes of the tree count: those of the worktree may have changed.
    let index = directory.path().join("index");
    let git = paths.worktree_git().with_env("GIT_INDEX_FILE", index);
    git.run_with_input(["read-tree", &work.tree], Input::File(directory.lock()))?;
    let filters = filters(&git, Attributes::OfIndex, &wanted)?;
    new_objects.retain(|(path, _)| filters.contains_key(path));
    if new_objects.is_empty() {
        return Ok(Vec::new());
    }
    // Content that the base has at any path is in its stored form; it may be moved.
    let known = objects.run(["ls-tree", "-r", "-z", "--object-only", &work.merge_base_tree])?;
    let known: BTreeSet<&[u8]> = known.split(|byte| *byte == 0).collect();
    let mut raw = Vec::new();
    for (path, object) in
        new_objects.into_iter().filter(|(_, object)| !known.contains(object.as_bytes()))
    {
        let Some(filter) = filters.get(&path) else { continue };
        let text = objects.run(["cat-file", "blob", &object])?;
        if !is_stored_form(filter, &text) {
            raw.push((path, filter.clone()));
        }
    }
    Ok(raw)
}

/// The regular files and their new objects in the output of `--raw`.
fn objects_of(stdout: &[u8]) -> BTreeSet<(Vec<u8>, String)> {
    let mut fields = stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
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

/// Whether this content was written by a known filter.
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
    fn stored_form_of_a_known_filter_is_distinguished_from_raw_content() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n";
        assert!(is_stored_form("lfs", pointer) && !is_stored_form("lfs", b"raw"));
        assert!(
            is_stored_form("git-crypt-key", b"\0GITCRYPT\0x")
                && !is_stored_form("git-crypt", b"raw")
        );
        assert!(!is_stored_form("other", pointer));
    }
}
