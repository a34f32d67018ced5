//! An empty repository that reads the objects of another one.
//!
//! It has none of the other's configuration, references and attributes. Commands that need only objects
//! run here, so that no configuration can make git run a merge driver, a filter or a diff program, or
//! hide submodules.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;

use super::worktree_paths::WorktreePaths;
use crate::git::command::Git;

/// Git that sees the objects of a repository; `object` is the name of any of them.
pub(super) fn git(state: &Path, paths: &WorktreePaths, object: &str) -> Result<Git, WorkError> {
    git_over(state, paths, object, &paths.objects_dir())
}

/// The same for objects in another directory.
pub(super) fn git_over(
    state: &Path,
    paths: &WorktreePaths,
    object: &str,
    objects: &Path,
) -> Result<Git, WorkError> {
    let plain = make(state, object).map_err(|error| WorkError {
        what: format!("the objects in {} cannot be opened", objects.display()),
        why: error.to_string(),
        caused_by_agent: false,
    })?;
    let git = Git::at(&plain).with_env("GIT_DIR", &plain).with_env("GIT_OBJECT_DIRECTORY", objects);
    let shallow = paths.common_dir.join("shallow");
    Ok(if shallow.exists() { git.with_env("GIT_SHALLOW_FILE", shallow) } else { git })
}

/// The setting `extensions.objectFormat` for object names of this length.
pub(super) fn object_format(object: &str) -> &'static str {
    if object.len() == 64 { "sha256" } else { "sha1" }
}

/// Creates the repository by one rename, unless it exists.
fn make(state: &Path, object: &str) -> io::Result<PathBuf> {
    let format = object_format(object);
    let views = state.join("views");
    let path = views.join(format);
    if path.join("HEAD").exists() {
        return Ok(path);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&views)?;
    let temporary = tempfile::Builder::new().prefix(".view-").tempdir_in(&views)?;
    fs::create_dir(temporary.path().join("refs"))?;
    fs::write(
        temporary.path().join("config"),
        format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = \
             {format}\n"
        ),
    )?;
    fs::write(temporary.path().join("HEAD"), "ref: refs/heads/none\n")?;
    match fs::rename(temporary.path(), &path) {
        Ok(()) => {
            let _renamed = temporary.keep();
            Ok(path)
        }
        // Another process created it first.
        Err(_) if path.join("HEAD").exists() => Ok(path),
        Err(error) => Err(error),
    }
}
