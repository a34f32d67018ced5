//! Copying files of the checkout into a tree. Nothing of the tree is written over, and no link of
//! either side leads anywhere else.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Copies a file or directory of the checkout to the same place in the tree.
pub(super) fn copy(checkout: &Path, tree: &Path, path: &str) -> io::Result<()> {
    let path = Path::new(path);
    if path.components().next().is_none() {
        return Err(io::Error::other("it is no path"));
    }
    let (mut from, mut to) = (checkout.to_owned(), tree.to_owned());
    for part in path.components() {
        if fs::symlink_metadata(&from)?.is_symlink() {
            return Err(io::Error::other("it is behind a link"));
        }
        make_directory(&to)?;
        let Component::Normal(name) = part else {
            return Err(io::Error::other("it leads out of the repository"));
        };
        from.push(name);
        to.push(name);
        refuse_git(name)?;
    }
    copy_entry(tree, &from, &to)
}

fn refuse_git(name: &OsStr) -> io::Result<()> {
    if name.eq_ignore_ascii_case(".git") {
        return Err(io::Error::other("git's own files are not copied"));
    }
    Ok(())
}

fn copy_entry(tree: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    let there = fs::symlink_metadata(to).ok();
    let differs = || io::Error::other(format!("the tree has another {}", to.display()));
    if kind.is_dir() {
        make_directory(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            refuse_git(&name)?;
            copy_entry(tree, &from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    if kind.is_symlink() {
        let target = fs::read_link(from)?;
        if !stays(tree, to, &target) {
            return Err(io::Error::other(format!("{} leads elsewhere", from.display())));
        }
        return match there {
            None => symlink(target, to),
            Some(_) if fs::read_link(to).is_ok_and(|other| other == target) => Ok(()),
            Some(_) => Err(differs()),
        };
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    match there {
        None => fs::copy(from, to).map(drop),
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

/// A link to a directory is none: it could lead out of the tree.
fn make_directory(path: &Path) -> io::Result<()> {
    let other = || io::Error::other(format!("{} is no directory", path.display()));
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::symlink_metadata(path)?.is_dir().then_some(()).ok_or_else(other)
        }
        made => made,
    }
}
