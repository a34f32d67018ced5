//! Copying files of the checkout into a tree. Nothing of the tree is written over, and no link of
//! either side leads anywhere else.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

/// Why something was not copied.
#[derive(Debug, Error)]
pub(super) enum CopyError {
    /// The tree has something else in its place.
    #[error("{0}")]
    Taken(String),
    /// It cannot be had, or not be written.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

impl CopyError {
    fn of(why: impl Into<String>) -> Self {
        Self::Failed(io::Error::other(why.into()))
    }
}

/// Copies a file or directory of the checkout to the same place in the tree.
///
/// A link may lead out of the tree only to one of the places in `visible`, which can be read in every
/// sandbox.
pub(super) fn copy(
    checkout: &Path,
    tree: &Path,
    path: &str,
    visible: &[PathBuf],
) -> Result<(), CopyError> {
    let path = Path::new(path);
    if path.components().next().is_none() {
        return Err(CopyError::of("it is no path"));
    }
    let (mut from, mut to) = (checkout.to_owned(), tree.to_owned());
    for part in path.components() {
        if fs::symlink_metadata(&from)?.is_symlink() {
            return Err(CopyError::of("it is behind a link"));
        }
        make_directory(&to)?;
        let Component::Normal(name) = part else {
            return Err(CopyError::of("it leads out of the repository"));
        };
        from.push(name);
        to.push(name);
        refuse_git(name)?;
    }
    copy_entry(tree, visible, &from, &to)
}

fn refuse_git(name: &OsStr) -> Result<(), CopyError> {
    if name.eq_ignore_ascii_case(".git") {
        return Err(CopyError::of("git's own files are not copied"));
    }
    Ok(())
}

fn copy_entry(tree: &Path, visible: &[PathBuf], from: &Path, to: &Path) -> Result<(), CopyError> {
    let kind = fs::symlink_metadata(from)?.file_type();
    let there = fs::symlink_metadata(to).ok();
    let differs = || CopyError::Taken(format!("the tree has another {}", to.display()));
    if kind.is_dir() {
        make_directory(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            refuse_git(&name)?;
            copy_entry(tree, visible, &from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    if kind.is_symlink() {
        let target = fs::read_link(from)?;
        if !stays(tree, to, &target) && !leads_to(visible, from) {
            return Err(CopyError::of(format!(
                "{} is a link to {}, which nobody can see in a sandbox; put a copy in its place, or \
                 install it with `setup` under [workspace] of the task",
                from.display(),
                target.display()
            )));
        }
        return match there {
            None => Ok(symlink(target, to)?),
            Some(_) if fs::read_link(to).is_ok_and(|other| other == target) => Ok(()),
            Some(_) => Err(differs()),
        };
    }
    if !kind.is_file() {
        return Err(CopyError::of("it is neither a file nor a directory"));
    }
    match there {
        None => Ok(fs::copy(from, to).map(drop)?),
        Some(other) if other.is_file() && fs::read(from)? == fs::read(to)? => Ok(()),
        Some(_) => Err(differs()),
    }
}

/// Whether a link at `place` leads to somewhere in the tree.
fn stays(tree: &Path, place: &Path, target: &Path) -> bool {
    let mut path: PathBuf = place.parent().unwrap_or(tree).to_owned();
    for part in target.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path != tree => {
                path.pop();
            }
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    path.starts_with(tree)
}

/// Whether a link of the checkout leads to something that every sandbox shows.
fn leads_to(visible: &[PathBuf], link: &Path) -> bool {
    fs::canonicalize(link).is_ok_and(|real| {
        crate::toolchain::in_system_programs(&real)
            || visible.iter().any(|place| real.starts_with(place))
    })
}

/// A link to a directory is none: it could lead out of the tree.
fn make_directory(path: &Path) -> Result<(), CopyError> {
    let other = || CopyError::Taken(format!("{} is no directory", path.display()));
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::symlink_metadata(path)?.is_dir().then_some(()).ok_or_else(other)
        }
        result => Ok(result?),
    }
}
