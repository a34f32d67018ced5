//! What a tree takes as files. A small pack can hold a tree that fills a disk.

use bailiwick_model::CommitId;

use crate::git::command::{Git, GitError};

/// The longest line with the size of an object: all digits of a `u64`, and a line break.
const MAX_LINE_BYTES: u64 = 21;

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
}
