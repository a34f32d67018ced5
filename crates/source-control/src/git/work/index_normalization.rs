//! Preparing an index that is not plain, so that all changes can be recorded: flags are cleared,
//! conflicts are refused, submodules are recorded without running git in them.
//!
//! To check a submodule, git would run `git status` in it, with the filters that are configured there.
//! So its commit is read here, and git is told to skip it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use bailiwick_lifecycle::ports::WorkError;

use super::escaped_path::escape_path;
use super::worktree_paths::WorktreePaths;
use super::{submodule, work_error};
use crate::git::command::{Git, GitError, Input};

/// An entry of `ls-files -v -s -z`.
struct Entry<'a> {
    tag: u8,
    mode: &'a str,
    object: &'a str,
    stage: &'a str,
    path: &'a [u8],
}

/// Prepares the index that `git` uses.
pub(super) fn normalize(git: &Git, paths: &WorktreePaths) -> Result<(), WorkError> {
    let what = || format!("the index of {} cannot be prepared", paths.worktree.display());
    let listing = git.run(["ls-files", "-v", "-s", "-z"]).map_err(work_error(what()))?;
    let entries: Option<Vec<Entry<'_>>> =
        listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(entry).collect();
    let entries =
        entries.ok_or_else(|| work_error(what())("git ls-files printed unexpected output"))?;
    let unmerged = unmerged(&entries);
    if !unmerged.is_empty() {
        let paths = unmerged.join(", ");
        let why = format!("a merge has conflicts; finish it or abort it first: {paths}");
        return Err(WorkError { what: what(), why, caused_by_agent: true });
    }
    let full_path = |entry: &Entry<'_>| paths.worktree.join(OsStr::from_bytes(entry.path));
    // In a sparse checkout, a missing file is not a deleted file.
    let sparse = is_sparse(&paths.worktree_git()).map_err(work_error(what()))?;
    let (mut assumed, mut skipped, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &entries {
        if entry.tag.is_ascii_lowercase() {
            assumed.push(entry.path);
        }
        let is_skipped = entry.tag.eq_ignore_ascii_case(&b'S');
        let exists = fs::symlink_metadata(full_path(entry)).is_ok();
        if is_skipped && (exists || !sparse) {
            skipped.push(entry.path);
        }
        if entry.mode == "160000" && full_path(entry).is_dir() && !full_path(entry).is_symlink() {
            links.push(entry);
        }
    }
    let mark = |how: &str, paths: &[&[u8]]| -> Result<(), WorkError> {
        if paths.is_empty() {
            return Ok(());
        }
        let input: Vec<u8> = paths.iter().flat_map(|path| [*path, &[0]].concat()).collect();
        let marked =
            git.run_with_input(["update-index", how, "-z", "--stdin"], Input::Bytes(&input));
        marked.map(drop).map_err(work_error(what()))
    };
    mark("--no-assume-unchanged", &assumed)?;
    mark("--no-skip-worktree", &skipped)?;
    let mut moved = Vec::new();
    for link in &links {
        let commit = submodule::commit(&full_path(link)).map_err(|error| WorkError {
            what: what(),
            why: format!(
                "the commit of the submodule {} cannot be read: {error}",
                escape_path(link.path)
            ),
            caused_by_agent: false,
        })?;
        if let Some(commit) = commit.filter(|commit| commit != link.object) {
            moved.extend_from_slice(format!("160000 {commit}\t").as_bytes());
            moved.extend_from_slice(link.path);
            moved.push(0);
        }
    }
    if !moved.is_empty() {
        let arguments = ["update-index", "-z", "--index-info"];
        git.run_with_input(arguments, Input::Bytes(&moved)).map_err(work_error(what()))?;
    }
    let links: Vec<&[u8]> = links.iter().map(|link| link.path).collect();
    mark("--skip-worktree", &links)
}

fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (head, path) = line.split_at_checked(tab)?;
    let words: Vec<&str> = std::str::from_utf8(head).ok()?.split(' ').collect();
    let [tag, mode, object, stage] = words.try_into().ok()?;
    let tag = *tag.as_bytes().first()?;
    Some(Entry { tag, mode, object, stage, path: path.get(1..)? })
}

/// The paths that have conflicts.
fn unmerged(entries: &[Entry<'_>]) -> Vec<String> {
    let unmerged = entries.iter().filter(|entry| entry.stage != "0");
    let mut paths: Vec<String> = unmerged.map(|entry| escape_path(entry.path)).collect();
    paths.dedup();
    paths
}

fn is_sparse(git: &Git) -> Result<bool, GitError> {
    let arguments = ["config", "--type=bool", "--default=false", "--get", "core.sparseCheckout"];
    Ok(git.line(arguments)? == "true")
}
