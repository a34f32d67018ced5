//! A tree as files, in a tiny repository of its own: nothing is registered in the main repository.
//!
//! It borrows the main repository's objects and has its tags, so that `git status`, `git log` and
//! `git describe` work in it, and it has nothing else of it: no configuration, branch or remote.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use bailiwick_control::ports::WorkError;

use super::places::Places;
use super::{plain, trouble};
use crate::git::command::Git;

/// Fills an empty directory.
pub(super) fn materialise(
    places: &Places,
    state: &Path,
    tree: &str,
    parents: &[&str],
    directory: &Path,
) -> Result<(), WorkError> {
    let what = || format!("the tree {tree} cannot be put into {}", directory.display());
    let objects = plain::git(state, places, tree)?;
    let (commit, tags) = std::thread::scope(|scope| {
        let format = "--format=%(objectname) %(refname)";
        let tags = scope.spawn(move || places.git().run(["for-each-ref", format, "refs/tags"]));
        (commit(objects, tree, parents), tags.join())
    });
    let commit = commit.map_err(trouble(what()))?;
    let tags = tags.map_err(|_| trouble(what())("the tags could not be read"))?;
    let tags = tags.map_err(trouble(what()))?;
    make(places, directory, &commit, &tags).map_err(trouble(what()))?;
    let fill = Git::at(directory)
        .with_env("GIT_DIR", directory.join(".git"))
        .with_env("GIT_WORK_TREE", directory)
        .run(["read-tree", "--reset", "-u", "HEAD"]);
    fill.map(drop).map_err(trouble(what()))
}

/// A commit of the tree; the same one whenever it is made, so that a build that looks at it finds
/// what it built before.
fn commit(
    objects: Git,
    tree: &str,
    parents: &[&str],
) -> Result<String, crate::git::command::GitError> {
    let date = match parents.first() {
        Some(parent) => objects.line(["log", "-1", "--format=%ct", parent, "--"])?,
        None => "0".to_owned(),
    };
    let date = format!("@{date} +0000");
    let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
    let arguments = ["commit-tree", tree].into_iter().chain(parents);
    plain::signed(objects, plain::OURSELVES, Some(&date))
        .line(arguments.chain(["-m", "The tree that is verified"]))
}

fn make(places: &Places, directory: &Path, commit: &str, tags: &[u8]) -> io::Result<()> {
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
        plain::format_of(commit)
    );
    fs::write(git.join("config"), config)?;
    fs::write(git.join("objects/info/alternates"), alternates(&places.objects())?)?;
    fs::write(git.join("packed-refs"), tags)?;
    if let Ok(shallow) = fs::read(places.common.join("shallow")) {
        fs::write(git.join("shallow"), shallow)?;
    }
    // The last thing: without it, git takes the directory for no repository.
    fs::write(git.join("HEAD"), format!("{commit}\n"))
}

/// Git reads a line that begins with a quote as quoted, and one with `#` as a comment.
fn alternates(objects: &Path) -> io::Result<Vec<u8>> {
    let path = objects.as_os_str().as_bytes();
    if path.contains(&b'\n') {
        return Err(io::Error::other("the path of the repository has a line break"));
    }
    Ok([path, b"\n"].concat())
}
