//! Merging with a git that lacks `--attr-source` (before 2.41) or `--merge-base` (before 2.40).
//!
//! Attributes are written as files of an otherwise empty work tree, where such a git reads them. A merge
//! base is given by commits that have it as their only parent.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::scratch_directory::ScratchDirectory;
use crate::git::command::{Git, GitError};
use crate::git::identity::{BAILIWICK, with_identity};

const ATTRIBUTES: &str = ".gitattributes";

/// Git in a work tree that has only the attribute files of `tree`.
pub(super) fn with_attributes_of(
    git: &Git,
    tree: &str,
    directory: &ScratchDirectory,
) -> Result<Git, GitError> {
    let root = directory.path().join("attributes");
    fs::create_dir(&root).map_err(not_written)?;
    for (path, object) in attribute_files(git, tree)? {
        let file = root.join(&path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(not_written)?;
        }
        fs::write(&file, git.run(["cat-file", "blob", &object])?).map_err(not_written)?;
    }
    Ok(git.clone().in_directory(&root).with_env("GIT_WORK_TREE", &root))
}

/// The attribute files of a tree, each with its object. As in git, links are left out.
fn attribute_files(git: &Git, tree: &str) -> Result<Vec<(PathBuf, String)>, GitError> {
    let listed = git.run(["ls-tree", "-r", "-z", "--full-tree", tree])?;
    let listed =
        listed.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    Ok(listed.filter_map(attribute_file).collect())
}

/// `MODE blob OBJECT<tab>PATH`, if it is an attribute file below the tree's root.
fn attribute_file(entry: &str) -> Option<(PathBuf, String)> {
    let (about, path) = entry.split_once('\t')?;
    let mut about = about.split(' ');
    let (mode, _, object) = (about.next()?, about.next()?, about.next()?);
    let path = PathBuf::from(path);
    let below = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_file = mode.starts_with("100") && path.file_name()? == ATTRIBUTES;
    (is_file && below).then(|| (path, object.to_owned()))
}

/// Commits of the two trees whose only parent, and so their merge base, has the tree of `base`.
pub(super) fn with_base(
    git: &Git,
    base: &str,
    ours: &str,
    theirs: &str,
) -> Result<[String; 2], GitError> {
    // A fixed date gives the same commits each time, so that repeated merges leave no new objects.
    let git = with_identity(git.clone(), BAILIWICK, Some("@0 +0000"));
    let commit = |of: &str, parent: Option<&str>| {
        let tree = format!("{of}^{{tree}}");
        let parent = parent.map(|parent| ["-p", parent]);
        let arguments = ["commit-tree", "-m", "merge", tree.as_str()];
        git.line(arguments.into_iter().chain(parent.into_iter().flatten()))
    };
    let base = commit(base, None)?;
    Ok([commit(ours, Some(&base))?, commit(theirs, Some(&base))?])
}

fn not_written(error: io::Error) -> GitError {
    GitError::io("cannot write the attributes for a merge", error)
}

pub(super) fn scratch_directory(state: &Path) -> Result<ScratchDirectory, GitError> {
    ScratchDirectory::create(state).map_err(not_written)
}
