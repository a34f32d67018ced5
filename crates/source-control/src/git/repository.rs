//! A repository with a working tree: its commits and its uncommitted changes.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::command::{Git, GitError, Input};
use super::listing::Listing;

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
}

/// Why HEAD has no commit.
#[derive(Debug, Error)]
pub enum HeadError {
    /// The repository has no commit at all.
    #[error("the repository has no commit yet")]
    NoCommit,
    /// The branch that is checked out has no commit; others do.
    #[error("{branch}, which is checked out, has no commit yet; switch to a branch that has one")]
    Unborn {
        /// Its full name.
        branch: String,
    },
    /// The branch names a missing commit.
    #[error("{branch} names a commit that is missing or damaged; run git fsck")]
    Missing {
        /// Its full name.
        branch: String,
    },
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// A file of the working tree that differs from the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path from the repository's root.
    pub path: String,
    /// How it differs.
    pub kind: DifferenceKind,
}

/// How a file differs from the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The commit does not have it.
    NotCommitted,
    /// The commit does not have it, and git ignores it.
    Ignored,
    /// The working tree does not have it.
    Deleted,
    /// Its content or its mode differs.
    Changed,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotCommitted => "is not committed",
            Self::Ignored => "is ignored by git",
            Self::Deleted => "is deleted here",
            Self::Changed => "is changed here",
        })
    }
}

impl Repository {
    /// The repository that contains `directory`, if any.
    pub fn discover(directory: &Path) -> Option<Self> {
        // As git does, skip an empty directory of that name.
        let has_repository = |place: &&Path| {
            let git = place.join(".git");
            git.is_file() || git.join("HEAD").exists()
        };
        let root = directory.ancestors().find(has_repository)?;
        Some(Self { root: root.to_owned() })
    }

    /// The top of its working tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Git in its root.
    pub fn git(&self) -> Git {
        Git::at(&self.root)
    }

    /// The commit that `revision` names, if any.
    pub fn commit(&self, revision: &str) -> Result<Option<String>, GitError> {
        let wanted = format!("{revision}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let output = self.git().output(arguments, Input::Nothing)?;
        match output.exit_code {
            Some(0) => Ok(Some(output.text())),
            Some(1) => Ok(None),
            Some(_) | None => Err(output.into_error()),
        }
    }

    /// The commit that is checked out.
    pub fn head(&self) -> Result<String, HeadError> {
        if let Some(commit) = self.commit("HEAD")? {
            return Ok(commit);
        }
        let git = self.git();
        let branch = git.line(["symbolic-ref", "--quiet", "HEAD"])?;
        if git.succeeds(["rev-parse", "--verify", "--quiet", "HEAD"])? {
            return Err(HeadError::Missing { branch });
        }
        match git.run(["for-each-ref", "--count=1"])?.is_empty() {
            true => Err(HeadError::NoCommit),
            false => Err(HeadError::Unborn { branch }),
        }
    }

    /// Starts to list the files of the checked-out commit below `prefix`.
    pub fn start_listing(&self, prefix: &str) -> Result<Listing, GitError> {
        Listing::start(&self.git(), prefix)
    }

    /// The tracked files with uncommitted changes.
    pub fn uncommitted(&self) -> Result<Vec<String>, GitError> {
        let options = ["--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
        let status = ["status"].into_iter().chain(options).chain(["--ignore-submodules=dirty"]);
        let output = self.git().run(status)?;
        let entries = output.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
        let changed =
            super::work::without_filtered(&self.root, entries.map(<[u8]>::to_vec).collect())?;
        Ok(changed.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// The files below `paths` that differ from the commit that is checked out.
    pub fn differences(&self, paths: &[&str]) -> Result<Vec<Difference>, GitError> {
        let options = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            // Together with all untracked files, this lists files and not directories.
            "--ignored=traditional",
            // Otherwise git would run in submodules, with their configuration.
            "--ignore-submodules=dirty",
            "--",
        ];
        let output = self.git().run(options.iter().chain(paths))?;
        let text = String::from_utf8_lossy(&output);
        let difference = |entry: &str| {
            let (state, path) = entry.split_at_checked(3)?;
            let kind = match state.trim() {
                "??" | "A" | "AM" => DifferenceKind::NotCommitted,
                "!!" => DifferenceKind::Ignored,
                "D" => DifferenceKind::Deleted,
                _ => DifferenceKind::Changed,
            };
            Some(Difference { path: path.to_owned(), kind })
        };
        Ok(text.split_terminator('\0').filter_map(difference).collect())
    }
}
