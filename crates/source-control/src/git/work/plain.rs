//! A repository of ours that is nothing but a view on somebody's objects.
//!
//! It has no configuration, no references and no attributes of theirs. What needs objects alone runs
//! here: nobody can have it call a merge driver, a filter or a diff program, or hide submodules.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::WorkError;

use super::places::Places;
use crate::git::command::Git;

/// Who signs what we make for our own use.
pub(super) const OURSELVES: (&str, &str) = ("Bailiwick", "bailiwick@localhost");

/// Git over the objects of a repository; `object` is the name of any of them.
pub(super) fn git(state: &Path, places: &Places, object: &str) -> Result<Git, WorkError> {
    over(state, places, object, &places.objects())
}

/// The same over objects that are elsewhere, on the way to or from that repository.
pub(super) fn over(
    state: &Path,
    places: &Places,
    object: &str,
    objects: &Path,
) -> Result<Git, WorkError> {
    let plain = make(state, object).map_err(|error| WorkError {
        what: format!("a view on {} cannot be made", objects.display()),
        why: error.to_string(),
        of_tree: false,
    })?;
    let git = Git::at(&plain)
        .with_env("GIT_DIR", &plain)
        .with_env("GIT_OBJECT_DIRECTORY", objects);
    let shallow = places.common.join("shallow");
    Ok(if shallow.exists() { git.with_env("GIT_SHALLOW_FILE", shallow) } else { git })
}

/// The same as somebody, at some time.
pub(super) fn signed(git: Git, (name, email): (&str, &str), date: Option<&str>) -> Git {
    let mut git = git;
    for role in ["AUTHOR", "COMMITTER"] {
        git = git
            .with_env(&format!("GIT_{role}_NAME"), name)
            .with_env(&format!("GIT_{role}_EMAIL"), email);
        if let Some(date) = date {
            git = git.with_env(&format!("GIT_{role}_DATE"), date);
        }
    }
    git
}

/// What the configuration of a repository with names of this length must say.
pub(super) fn format_of(object: &str) -> &'static str {
    if object.len() == 64 { "sha256" } else { "sha1" }
}

/// Made once and never changed: it appears by one rename.
fn make(state: &Path, object: &str) -> io::Result<PathBuf> {
    let format = format_of(object);
    let views = state.join("views");
    let place = views.join(format);
    if place.join("HEAD").exists() {
        return Ok(place);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&views)?;
    let fresh = tempfile::Builder::new().prefix(".view-").tempdir_in(&views)?;
    fs::create_dir(fresh.path().join("refs"))?;
    fs::write(
        fresh.path().join("config"),
        format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = \
             {format}\n"
        ),
    )?;
    fs::write(fresh.path().join("HEAD"), "ref: refs/heads/none\n")?;
    match fs::rename(fresh.path(), &place) {
        Ok(()) => {
            let _renamed = fresh.keep();
            Ok(place)
        }
        // Somebody else was quicker.
        Err(_) if place.join("HEAD").exists() => Ok(place),
        Err(error) => Err(error),
    }
}
