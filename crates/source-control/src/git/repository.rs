//! One repository: where it is, where its commits are, what differs from them.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::command::{Git, GitError, Input};
use super::listing::Listing;

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
}

/// Why no commit is checked out.
#[derive(Debug, Error)]
pub enum NoHead {
    /// There is none in the whole repository.
    #[error("the repository has no commit yet")]
    NoCommit,
    /// The branch that is checked out has none; others have.
    #[error("{branch}, which is checked out, has no commit yet; switch to a branch that has one")]
    Unborn {
        /// Its full name.
        branch: String,
    },
    /// The branch names a commit that is not there.
    #[error("{branch} names a commit that is missing or damaged; see what git fsck says")]
    Missing {
        /// Its full name.
        branch: String,
    },
    /// Git did not say.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// How a file of the working copy differs from the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The file, from the repository's root.
    pub path: String,
    /// In what way.
    pub how: &'static str,
}

impl Repository {
    /// The repository that holds `directory`, if one does.
    pub fn discover(directory: &Path) -> Option<Self> {
        // As git does, an empty directory of that name is passed by.
        let holds = |place: &&Path| {
            let git = place.join(".git");
            git.is_file() || git.join("HEAD").exists()
        };
        let root = directory.ancestors().find(holds)?;
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

    /// The commit that `revision` names; nothing if it names none.
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
    pub fn head(&self) -> Result<String, NoHead> {
        if let Some(commit) = self.commit("HEAD")? {
            return Ok(commit);
        }
        let git = self.git();
        let branch = git.line(["symbolic-ref", "--quiet", "HEAD"])?;
        if git.succeeds(["rev-parse", "--verify", "--quiet", "HEAD"])? {
            return Err(NoHead::Missing { branch });
        }
        match git.run(["for-each-ref", "--count=1"])?.is_empty() {
            true => Err(NoHead::NoCommit),
            false => Err(NoHead::Unborn { branch }),
        }
    }

    /// Asks for the files of the checked-out commit below `prefix`; the answer can wait.
    pub fn start_listing(&self, prefix: &str) -> Result<Listing, GitError> {
        Listing::start(&self.git(), prefix)
    }

    /// The tracked files of its checkout that have changes which are not committed.
    pub fn uncommitted(&self) -> Result<Vec<String>, GitError> {
        let options = ["--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
        let status = ["status"].into_iter().chain(options).chain(["--ignore-submodules=dirty"]);
        let output = self.git().run(status)?;
        let entries = output.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
        let changed =
            super::work::without_filtered(&self.root, entries.map(<[u8]>::to_vec).collect())?;
        Ok(changed.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// What below `paths` differs from the commit that is checked out.
    pub fn differences(&self, paths: &[&str]) -> Result<Vec<Difference>, GitError> {
        let options = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            // With all untracked files: each file by itself, never a directory for many.
            "--ignored=traditional",
            // Git would run in them, as they say.
            "--ignore-submodules=dirty",
            "--",
        ];
        let output = self.git().run(options.iter().chain(paths))?;
        let text = String::from_utf8_lossy(&output);
        let difference = |entry: &str| {
            let (state, path) = entry.split_at_checked(3)?;
            let how = match state.trim() {
                "??" | "A" | "AM" => "is not committed",
                "!!" => "is ignored by git",
                "D" => "is deleted here",
                _ => "is changed here",
            };
            Some(Difference { path: path.to_owned(), how })
        };
        Ok(text.split_terminator('\0').filter_map(difference).collect())
    }
}
