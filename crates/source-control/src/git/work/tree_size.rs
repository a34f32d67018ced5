//! What a tree takes as files. A small pack can hold a tree that fills a disk.

use bailiwick_model::CommitId;

use crate::git::command::{Git, GitError};

/// The longest line with the size of an object: all digits of a `u64`, and a line break.
const MAX_LINE_BYTES: u64 = 21;
/// The longest name of a file on Linux.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The longest path in a worktree: with the path of the worktree, it must fit into 4096 bytes.
pub(super) const MAX_PATH_BYTES: usize = 3_584;
/// How long the paths of a tree may be on average.
const MAX_AVERAGE_PATH: u64 = 512;
/// What a list of paths may take in any case.
const MIN_LISTING_BYTES: usize = 1024 * 1024;
/// How many characters of a path are shown.
const MAX_SHOWN: usize = 80;

/// What a tree takes as files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeSize {
    /// Files, links, submodules and directories.
    pub entries: u64,
    /// The bytes of all files.
    pub bytes: u64,
}

impl TreeSize {
    pub(super) const UNLIMITED: Self = Self { entries: u64::MAX, bytes: u64::MAX };

    /// The size of the tree of a commit; `None` if it is above `limit`.
    pub(super) fn measure(
        git: &Git,
        commit: &CommitId,
        limit: Self,
    ) -> Result<Option<Self>, GitError> {
        // Directories are listed as well: nested ones without any file would take git for ever.
        let list = ["ls-tree", "-r", "-t", "--full-tree", "--format=%(objectsize)"];
        let arguments: Vec<&str> = list.into_iter().chain([commit.as_str()]).collect();
        let max_bytes = limit.entries.saturating_mul(MAX_LINE_BYTES);
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let Some(listing) = git.run_limited(&arguments, max_bytes)? else { return Ok(None) };
        let size = sum(&String::from_utf8_lossy(&listing))?;
        Ok((size.entries <= limit.entries && size.bytes <= limit.bytes).then_some(size))
    }

    /// The first path of a commit with this size that no file here can have, because it or one of its names is too long.
    pub(super) fn find_long_path(
        self,
        git: &Git,
        commit: &CommitId,
    ) -> Result<Option<String>, GitError> {
        let list = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit.as_str()];
        // A small tree can hold long paths without number: then most of them are longer than this.
        let max_bytes = self.entries.saturating_mul(MAX_AVERAGE_PATH);
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX).max(MIN_LISTING_BYTES);
        let Some(listing) = git.run_limited(&list, max_bytes)? else {
            return Ok(Some("most of its paths".to_owned()));
        };
        let is_long = |path: &&[u8]| {
            path.len() > MAX_PATH_BYTES
                || path.split(|byte| *byte == b'/').any(|name| name.len() > MAX_NAME_BYTES)
        };
        let found = listing.split(|byte| *byte == 0).find(is_long);
        Ok(found.map(|path| String::from_utf8_lossy(path).chars().take(MAX_SHOWN).collect()))
    }

    pub(super) fn doubled(self) -> Self {
        Self { entries: self.entries.saturating_mul(2), bytes: self.bytes.saturating_mul(2) }
    }

    /// The larger one of each number.
    pub(super) fn max(self, other: Self) -> Self {
        Self { entries: self.entries.max(other.entries), bytes: self.bytes.max(other.bytes) }
    }
}

fn sum(listing: &str) -> Result<TreeSize, GitError> {
    let mut size = TreeSize { entries: 0, bytes: 0 };
    for line in listing.lines() {
        let bytes = match line {
            // A directory or a submodule.
            "-" => 0,
            number => number.parse::<u64>().map_err(|_| GitError::UnexpectedOutput {
                command: "ls-tree".to_owned(),
                output: number.to_owned(),
            })?,
        };
        size.entries = size.entries.saturating_add(1);
        size.bytes = size.bytes.saturating_add(bytes);
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn entries_and_bytes_of_a_tree_are_counted_up_to_a_limit() {
        let scratch = Scratch::repository();
        scratch.write("src/a.txt", "one\n");
        scratch.write("src/b.txt", "three\n");
        let commit = CommitId::new(scratch.commit("start").as_str());
        let git = Git::at(scratch.root());
        let measured = |limit| TreeSize::measure(&git, &commit, limit).unwrap();
        let size = measured(TreeSize::UNLIMITED).unwrap();
        assert!(size.entries >= 3 && size.bytes >= 10, "{size:?}");
        assert_eq!(measured(size), Some(size));
        assert_eq!(measured(TreeSize { entries: size.entries - 1, ..size }), None);
        assert_eq!(measured(TreeSize { bytes: size.bytes - 1, ..size }), None);
        assert_eq!(measured(TreeSize { entries: 0, ..size }), None);
    }

    #[test]
    fn paths_that_this_machine_cannot_store_are_found() {
        let scratch = Scratch::repository();
        scratch.write("a.txt", "one\n");
        let git = Git::at(scratch.root());
        let blob = scratch.git(&["hash-object", "-w", "a.txt"]).trim().to_owned();
        let deep = |count: usize| vec!["d".repeat(200); count].join("/");
        for (path, is_long) in [
            ("n".repeat(255), false),
            ("n".repeat(256), true),
            (format!("src/{}/a.txt", "n".repeat(256)), true),
            (deep(17), false),
            (deep(18), true),
        ] {
            let entry = format!("100644,{blob},{path}");
            scratch.git(&["update-index", "--add", "--cacheinfo", &entry]);
            let tree = scratch.git(&["write-tree"]).trim().to_owned();
            scratch.git(&["update-index", "--force-remove", "--", &path]);
            let commit = scratch.git(&["commit-tree", "-m", "long", &tree]).trim().to_owned();
            let commit = CommitId::new(commit);
            let size = TreeSize::measure(&git, &commit, TreeSize::UNLIMITED).unwrap().unwrap();
            let found = size.find_long_path(&git, &commit).unwrap();
            assert_eq!(found.is_some(), is_long, "{path}");
        }
    }
}
