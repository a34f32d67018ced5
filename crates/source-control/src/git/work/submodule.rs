//! The commit that a submodule has checked out, read from its files: an agent can make a submodule
//! of anything, and a git that is called in it would follow what is configured there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::plain_file;

/// How often a name may lead to another one.
const STEPS: usize = 5;
const PACKED: u64 = 64 * 1024 * 1024;

/// The commit; nothing if no repository is there. An error if it cannot be told.
pub(super) fn commit(submodule: &Path) -> io::Result<Option<String>> {
    let git = submodule.join(".git");
    let Ok(found) = fs::symlink_metadata(&git) else { return Ok(None) };
    let private = if found.is_file() {
        let text = plain_file::line(&git)?;
        let named = text.strip_prefix("gitdir: ").ok_or_else(|| unknown(&git))?;
        submodule.join(named)
    } else {
        git
    };
    let common = match plain_file::line(&private.join("commondir")) {
        Ok(named) => private.join(named),
        Err(error) if error.kind() == io::ErrorKind::NotFound => private.clone(),
        Err(error) => return Err(error),
    };
    let mut text = plain_file::line(&private.join("HEAD"))?;
    for _ in 0..STEPS {
        let Some(name) = text.strip_prefix("ref: ") else { break };
        text = reference(&common, name.trim_start())?;
    }
    let is_commit =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        Ok(Some(text.to_ascii_lowercase()))
    } else {
        Err(unknown(&private.join("HEAD")))
    }
}

/// What a branch says.
fn reference(common: &Path, name: &str) -> io::Result<String> {
    let place: PathBuf = common.join(name);
    let inside =
        name.starts_with("refs/") && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if !inside {
        return Err(unknown(&place));
    }
    match plain_file::line(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let packed =
        plain_file::read(&common.join("packed-refs"), PACKED).map_err(|_| unknown(&place))?;
    let packed = String::from_utf8_lossy(&packed);
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(_, packed)| *packed == name);
    found.map(|(commit, _)| commit.to_owned()).ok_or_else(|| unknown(&place))
}

fn unknown(place: &Path) -> io::Error {
    io::Error::other(format!("{} does not tell a commit", place.display()))
}
