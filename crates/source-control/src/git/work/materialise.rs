//! Writing a tree as files, in a small repository of its own: nothing is registered in the main one.
//!
//! It borrows the main repository's objects and copies its tags, so that `git status`, `git log` and
//! `git describe` work in it. It has no configuration, branch or remote of the main repository.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_model::{CommitId, TreeId};

use super::worktree_paths::WorktreePaths;
use super::{object_view, work_error};
use crate::git::command::Git;
use crate::git::identity::{BAILIWICK, with_identity};

/// Writes a tree into an empty directory.
pub(super) fn materialise(
    paths: &WorktreePaths,
    state: &Path,
    tree: &TreeId,
    parents: &[&CommitId],
    directory: &Path,
) -> Result<(), WorkError> {
    let what = || format!("the tree {tree} cannot be written to {}", directory.display());
    let objects = object_view::git(state, paths, tree)?;
    let (commit, tags) = std::thread::scope(|scope| {
        let format = "--format=%(objectname) %(refname)";
        let tags = scope.spawn(move || paths.git().run(["for-each-ref", format, "refs/tags"]));
        (commit(objects, tree, parents), tags.join())
    });
    let commit = commit.map_err(work_error(what()))?;
    let tags = tags.map_err(|_| work_error(what())("the tags cannot be read"))?;
    let tags = tags.map_err(work_error(what()))?;
    create_repository(paths, directory, &commit, &tags).map_err(work_error(what()))?;
    let fill = Git::at(directory)
        .with_env("GIT_DIR", directory.join(".git"))
        .with_env("GIT_WORK_TREE", directory)
        .run(["read-tree", "--reset", "-u", "HEAD"]);
    fill.map(drop).map_err(work_error(what()))
}

/// A commit of the tree. It is always the same one, so that a build that depends on its name is cached.
fn commit(
    objects: Git,
    tree: &TreeId,
    parents: &[&CommitId],
) -> Result<CommitId, crate::git::command::GitError> {
    let date = match parents.first() {
        Some(parent) => objects.line(["log", "-1", "--format=%ct", parent.as_str(), "--"])?,
        None => "0".to_owned(),
    };
    let date = format!("@{date} +0000");
    let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
    let arguments = ["commit-tree", tree.as_str()].into_iter().chain(parents);
    with_identity(objects, BAILIWICK, Some(&date))
        .line(arguments.chain(["-m", "The tree that is verified"]))
        .map(CommitId::new)
}

fn create_repository(
    paths: &WorktreePaths,
    directory: &Path,
    commit: &CommitId,
    tags: &[u8],
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    if fs::read_dir(directory)?.next().is_some() {
        return Err(io::Error::other("it is not empty"));
    }
    let git = directory.join(".git");
    for path in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(git.join(path))?;
    }
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = false\n\tsymlinks = \
         true\n\tlogallrefupdates = false\n[extensions]\n\tobjectFormat = {}\n[gc]\n\tauto = 0\n",
        object_view::object_format(commit)
    );
    fs::write(git.join("config"), config)?;
    fs::write(git.join("objects/info/alternates"), alternates(&paths.objects_dir())?)?;
    fs::write(git.join("packed-refs"), tags)?;
    if let Ok(shallow) = fs::read(paths.common_dir.join("shallow")) {
        fs::write(git.join("shallow"), shallow)?;
    }
    // Written last: without it, the directory is not a repository.
    fs::write(git.join("HEAD"), format!("{commit}\n"))
}

/// The content of `objects/info/alternates`; an absolute path needs no quotes.
fn alternates(objects: &Path) -> io::Result<Vec<u8>> {
    let path = objects.as_os_str().as_bytes();
    if path.contains(&b'\n') {
        return Err(io::Error::other("the path of the repository contains a line break"));
    }
    Ok([path, b"\n"].concat())
}
