//! Settings that disable git filters: programs that the repository's configuration runs on file contents.
//!
//! A file with a filter (`filter=lfs`) is then written as it is in the tree, and changes of it are refused
//! (`filtered_files`). Merge drivers need no setting: merges run without the repository's configuration.

use std::path::Path;

use super::regular_file;
use super::worktree_paths::WorktreePaths;
use crate::git::command::{Git, GitError};

/// Settings that disable all filters in a worktree.
pub(super) fn without_filters(paths: &WorktreePaths) -> Result<Vec<(String, String)>, GitError> {
    let files = [paths.common_dir.join("config"), paths.git_dir.join("config.worktree")];
    disable(&files, &paths.worktree_git())
}

fn disable(files: &[impl AsRef<Path>], git: &Git) -> Result<Vec<(String, String)>, GitError> {
    // A file without these words cannot configure a filter; this saves a process.
    if !files.iter().any(|file| may_name_filters(file.as_ref())) {
        return Ok(Vec::new());
    }
    let names = git.run(["config", "--list", "-z", "--name-only"])?;
    let names = String::from_utf8_lossy(&names).into_owned();
    let mut filters: Vec<&str> = names.split('\0').filter_map(filter).collect();
    filters.sort_unstable();
    filters.dedup();
    let disable = |filter: &str| {
        let set = |key: &str, value: &str| (format!("{filter}.{key}"), value.to_owned());
        [set("clean", ""), set("smudge", ""), set("process", ""), set("required", "false")]
    };
    Ok(filters.into_iter().flat_map(disable).collect())
}

/// `filter.<name>` of a setting `filter.<name>.<key>`.
fn filter(name: &str) -> Option<&str> {
    let (filter, _) = name.rsplit_once('.')?;
    filter.starts_with("filter.").then_some(filter)
}

/// A file that cannot be read may configure a filter.
fn may_name_filters(file: &Path) -> bool {
    match regular_file::read(file, u64::MAX) {
        Ok(text) => {
            let text = text.to_ascii_lowercase();
            let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
            has(b"filter") || has(b"include")
        }
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
