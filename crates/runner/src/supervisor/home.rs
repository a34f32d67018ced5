//! The agent's home: new for every attempt, but for its conversations.
//!
//! Anything else that an agent leaves there could change how the next attempt is enforced.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path};

use super::directory::RunDirectory;

/// The maximum size of what is copied.
const MAX_BYTES: u64 = 1 << 30;

/// Creates a new home. Only `conversations`, paths below it, are copied: regular files and directories, no links.
pub(super) fn renew(directory: &RunDirectory, conversations: &[String]) -> io::Result<()> {
    let (home, old) = (directory.home(), directory.path().join("home-before"));
    remove(&old)?;
    match fs::rename(&home, &old) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::DirBuilder::new().mode(0o700).create(&home)?;
    let mut remaining = MAX_BYTES;
    for name in conversations {
        let inside = Path::new(name);
        if inside.components().all(|part| matches!(part, Component::Normal(_))) {
            carry(&old, &home, inside, &mut remaining)?;
        }
    }
    remove(&old)
}

fn remove(place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Carries over one path, if no part of the way to it is a link.
fn carry(old: &Path, home: &Path, inside: &Path, remaining: &mut u64) -> io::Result<()> {
    let mut from = old.to_path_buf();
    let mut to = home.to_path_buf();
    let Some(parent) = inside.parent() else { return Ok(()) };
    for part in parent.components() {
        from.push(part);
        to.push(part);
        if !fs::symlink_metadata(&from).is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
    }
    copy(&old.join(inside), &home.join(inside), remaining)
}

fn copy(from: &Path, to: &Path, remaining: &mut u64) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
    if found.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()), remaining)?;
        }
        return Ok(());
    }
    if !found.is_file() {
        return Ok(());
    }
    *remaining = remaining
        .checked_sub(found.len())
        .ok_or_else(|| io::Error::other("its conversations are larger than 1 GiB"))?;
    fs::copy(from, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conversations_are_copied_and_no_links() {
        let state = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(state.path(), "one");
        directory.make().unwrap();
        let home = directory.home();
        fs::create_dir_all(home.join(".claude/projects/x")).unwrap();
        fs::write(home.join(".claude/projects/x/talk.jsonl"), "talk").unwrap();
        fs::write(home.join(".claude/settings.json"), "{\"disableAllHooks\":true}").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.join(".claude/projects/link")).unwrap();
        std::os::unix::fs::symlink("/etc", home.join("away")).unwrap();
        let paths = [".claude/projects".to_owned(), "away/passwd".to_owned(), "../x".to_owned()];
        renew(&directory, &paths).unwrap();
        let conversation = fs::read_to_string(home.join(".claude/projects/x/talk.jsonl")).unwrap();
        assert_eq!(conversation, "talk");
        for name in [".claude/settings.json", ".claude/projects/link", "away"] {
            assert!(fs::symlink_metadata(home.join(name)).is_err(), "{name} is still there");
        }
        assert!(!directory.path().join("home-before").exists());
    }
}
