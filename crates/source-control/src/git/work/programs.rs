//! Programs that a repository's configuration would have git run on file contents: switched off.
//!
//! A file whose attribute names a filter (`filter=lfs`) is then written as it is in the tree, and a change of it is
//! refused (`filtered`). Merge drivers are not met: merges are made in a view of our own.

use std::path::Path;

use super::places::Places;
use super::plain_file;
use crate::git::command::{Git, GitError};

/// Settings that leave no filter to run, for work in the agent's worktree.
pub(super) fn without_filters(places: &Places) -> Result<Vec<(String, String)>, GitError> {
    let files = [places.common.join("config"), places.private.join("config.worktree")];
    off(&files, &places.agent_git())
}

fn off(files: &[impl AsRef<Path>], git: &Git) -> Result<Vec<(String, String)>, GitError> {
    // Asking git takes a process; a file that has neither word cannot bring a filter in.
    if !files.iter().any(|file| may_name_filters(file.as_ref())) {
        return Ok(Vec::new());
    }
    let names = git.run(["config", "--list", "-z", "--name-only"])?;
    let names = String::from_utf8_lossy(&names).into_owned();
    let mut filters: Vec<&str> = names.split('\0').filter_map(filter).collect();
    filters.sort_unstable();
    filters.dedup();
    let off = |filter: &str| {
        let set = |key: &str, value: &str| (format!("{filter}.{key}"), value.to_owned());
        [set("clean", ""), set("smudge", ""), set("process", ""), set("required", "false")]
    };
    Ok(filters.into_iter().flat_map(off).collect())
}

/// `filter.<name>` of a setting `filter.<name>.<key>`.
fn filter(name: &str) -> Option<&str> {
    let (filter, _) = name.rsplit_once('.')?;
    filter.starts_with("filter.").then_some(filter)
}

/// What cannot be read may name some.
fn may_name_filters(file: &Path) -> bool {
    match plain_file::read(file, u64::MAX) {
        Ok(text) => {
            let text = text.to_ascii_lowercase();
            let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
            has(b"filter") || has(b"include")
        }
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
