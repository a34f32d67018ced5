//! An index that is not plain, made fit to record everything: flags cleared, conflicts refused,
//! submodules noted without looking into them.
//!
//! To see whether a submodule is changed, git would run `git status` in it, with filters that are
//! configured there; so what a submodule is at is read by us, and git is told to pass it by.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use bailiwick_control::ports::WorkError;

use super::places::Places;
use super::{paths, submodule, trouble};
use crate::git::command::{Git, GitError, Input};

/// One entry of `ls-files -v -s -z`.
struct Entry<'a> {
    tag: u8,
    mode: &'a str,
    object: &'a str,
    stage: &'a str,
    path: &'a [u8],
}

/// Settles the index that `git` works on.
pub(super) fn settle(git: &Git, places: &Places) -> Result<(), WorkError> {
    let what = || format!("the index of {} cannot be settled", places.worktree.display());
    let listing = git.run(["ls-files", "-v", "-s", "-z"]).map_err(trouble(what()))?;
    let entries: Option<Vec<Entry<'_>>> =
        listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(entry).collect();
    let entries =
        entries.ok_or_else(|| trouble(what())("git ls-files answered in an unknown way"))?;
    let unmerged = unmerged(&entries);
    if !unmerged.is_empty() {
        let paths = unmerged.join(", ");
        let why = format!("a merge has conflicts; finish it or abort it first: {paths}");
        return Err(WorkError { what: what(), why, of_tree: true });
    }
    let there = |entry: &Entry<'_>| places.worktree.join(OsStr::from_bytes(entry.path));
    // In a sparse checkout a file that is not there is not deleted.
    let sparse = is_sparse(&places.agent_git()).map_err(trouble(what()))?;
    let (mut assumed, mut skipped, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &entries {
        if entry.tag.is_ascii_lowercase() {
            assumed.push(entry.path);
        }
        let is_skipped = entry.tag.eq_ignore_ascii_case(&b'S');
        let present = fs::symlink_metadata(there(entry)).is_ok();
        if is_skipped && (present || !sparse) {
            skipped.push(entry.path);
        }
        if entry.mode == "160000" && there(entry).is_dir() && !there(entry).is_symlink() {
            links.push(entry);
        }
    }
    let mark = |how: &str, paths: &[&[u8]]| -> Result<(), WorkError> {
        if paths.is_empty() {
            return Ok(());
        }
        let input: Vec<u8> = paths.iter().flat_map(|path| [*path, &[0]].concat()).collect();
        let marked = git.run_with_input(["update-index", how, "-z", "--stdin"], Input::Bytes(&input));
        marked.map(drop).map_err(trouble(what()))
    };
    mark("--no-assume-unchanged", &assumed)?;
    mark("--no-skip-worktree", &skipped)?;
    let mut moved = Vec::new();
    for link in &links {
        let now = submodule::commit(&there(link)).map_err(|error| WorkError {
            what: what(),
            why: format!(
                "the commit of the submodule {} cannot be told: {error}",
                paths::shown(link.path)
            ),
            of_tree: false,
        })?;
        if let Some(now) = now.filter(|now| now != link.object) {
            moved.extend_from_slice(format!("160000 {now}\t").as_bytes());
            moved.extend_from_slice(link.path);
            moved.push(0);
        }
    }
    if !moved.is_empty() {
        let arguments = ["update-index", "-z", "--index-info"];
        git.run_with_input(arguments, Input::Bytes(&moved)).map_err(trouble(what()))?;
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
    let mut paths: Vec<String> = unmerged.map(|entry| paths::shown(entry.path)).collect();
    paths.dedup();
    paths
}

fn is_sparse(git: &Git) -> Result<bool, GitError> {
    let arguments = ["config", "--type=bool", "--default=false", "--get", "core.sparseCheckout"];
    Ok(git.line(arguments)? == "true")
}
