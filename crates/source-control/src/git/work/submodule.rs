//! The commit of a submodule, read from its files: an agent can create a submodule with any
//! configuration, and git would follow it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::regular_file;

/// How many symbolic references are followed.
const MAX_SYMBOLIC_REFS: usize = 5;
const MAX_PACKED_REFS_BYTES: u64 = 64 * 1024 * 1024;

/// The commit that is checked out; `None` if the directory is not a repository.
pub(super) fn commit(submodule: &Path) -> io::Result<Option<String>> {
    let git = submodule.join(".git");
    let Ok(found) = fs::symlink_metadata(&git) else { return Ok(None) };
    let git_dir = if found.is_file() {
        let text = regular_file::read_line(&git)?;
        let named = text.strip_prefix("gitdir: ").ok_or_else(|| unknown(&git))?;
        submodule.join(named)
    } else {
        git
    };
    let common_dir = match regular_file::read_line(&git_dir.join("commondir")) {
        Ok(named) => git_dir.join(named),
        Err(error) if error.kind() == io::ErrorKind::NotFound => git_dir.clone(),
        Err(error) => return Err(error),
    };
    let mut text = regular_file::read_line(&git_dir.join("HEAD"))?;
    for _ in 0..MAX_SYMBOLIC_REFS {
        let Some(name) = text.strip_prefix("ref: ") else { break };
        text = reference(&common_dir, name.trim_start())?;
    }
    let is_commit =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        Ok(Some(text.to_ascii_lowercase()))
    } else {
        Err(unknown(&git_dir.join("HEAD")))
    }
}

/// The content of a reference.
fn reference(common_dir: &Path, name: &str) -> io::Result<String> {
    let path: PathBuf = common_dir.join(name);
    let inside =
        name.starts_with("refs/") && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if !inside {
        return Err(unknown(&path));
    }
    match regular_file::read_line(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let packed = regular_file::read(&common_dir.join("packed-refs"), MAX_PACKED_REFS_BYTES)
        .map_err(|_| unknown(&path))?;
    let packed = String::from_utf8_lossy(&packed);
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(_, packed)| *packed == name);
    found.map(|(commit, _)| commit.to_owned()).ok_or_else(|| unknown(&path))
}

fn unknown(path: &Path) -> io::Error {
    io::Error::other(format!("{} does not name a commit", path.display()))
}
