//! The directories of a repository and of one agent's worktree, found without running git.
//!
//! The agent can write the `.git` file of its worktree, so it is accepted only if the repository's own
//! files agree with it.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;

use super::regular_file;
use crate::git::command::Git;

/// The directories of one agent's worktree and of the repository that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorktreePaths {
    /// The git directory that all worktrees share.
    pub(super) common_dir: PathBuf,
    /// The git directory of this worktree; the same as `common_dir` in a main checkout.
    pub(super) git_dir: PathBuf,
    /// The directory with the files.
    pub(super) worktree: PathBuf,
}

impl WorktreePaths {
    /// The paths of `worktree`, which must be a worktree of the repository that contains `repository`.
    pub(super) fn observe(repository: &Path, worktree: &Path) -> Result<Self, WorkError> {
        let common_dir = find_common_dir(repository)?;
        let what = || format!("{} cannot be used as a worktree", worktree.display());
        let path = fs::canonicalize(worktree).map_err(|error| failed(what(), &error))?;
        let git = path.join(".git");
        if fs::symlink_metadata(&git).is_ok_and(|found| found.is_symlink()) {
            return Err(refuse(what(), "its .git is a symbolic link".to_owned()));
        }
        let Some(git_dir) = git_directory(&path) else {
            return Err(refuse(what(), "it has no valid .git".to_owned()));
        };
        if git_dir == common_dir {
            return Ok(Self { common_dir, git_dir, worktree: path });
        }
        let registered = git_dir.parent() == Some(&common_dir.join("worktrees"));
        // The repository's record of the worktree must point back to it.
        let recorded = regular_file::read_line(&git_dir.join("gitdir")).ok();
        let recorded = recorded.and_then(|text| fs::canonicalize(git_dir.join(text)).ok());
        if !registered || recorded.as_deref() != Some(&git) {
            let why = format!(
                "its .git points to {}, not to {}",
                git_dir.display(),
                common_dir.display()
            );
            return Err(refuse(what(), why));
        }
        // Git would read configuration and references from there.
        let shared = read_commondir(&git_dir).map_err(|error| failed(what(), &error))?;
        if shared != common_dir {
            let why = format!(
                "{} points to {}, not to {}",
                git_dir.join("commondir").display(),
                shared.display(),
                common_dir.display()
            );
            return Err(refuse(what(), why));
        }
        require_regular_files(&git_dir).map_err(|error| failed(what(), &error))?;
        Ok(Self { common_dir, git_dir, worktree: path })
    }

    /// Git in the common directory.
    pub(super) fn git(&self) -> Git {
        Git::at(&self.common_dir)
    }

    /// Git in the worktree, whatever its `.git` and `commondir` say.
    pub(super) fn worktree_git(&self) -> Git {
        let git = Git::at(&self.worktree)
            .with_env("GIT_DIR", &self.git_dir)
            .with_env("GIT_WORK_TREE", &self.worktree);
        if self.git_dir == self.common_dir {
            return git;
        }
        git.with_env("GIT_COMMON_DIR", &self.common_dir)
    }

    pub(super) fn objects_dir(&self) -> PathBuf {
        self.common_dir.join("objects")
    }
}

/// The common directory of a repository; `path` is a checkout, a worktree or a bare repository.
pub(super) fn find_common_dir(path: &Path) -> Result<PathBuf, WorkError> {
    let what = || format!("{} cannot be used as a repository", path.display());
    let path = fs::canonicalize(path).map_err(|error| failed(what(), &error))?;
    let Some(git_dir) = path.ancestors().find_map(git_directory) else {
        return Err(refuse(what(), "it is not in a git repository".to_owned()));
    };
    let common_dir = read_commondir(&git_dir).map_err(|error| failed(what(), &error))?;
    // Only a linked worktree has another common directory, and it is registered there.
    let above = git_dir.parent().filter(|above| above.ends_with("worktrees"));
    let expected = if common_dir == git_dir { None } else { Some(&common_dir) };
    if expected.map(PathBuf::as_path) != expected.and(above).and_then(Path::parent) {
        let path = git_dir.join("commondir");
        let why = format!("{} points to {}", path.display(), common_dir.display());
        return Err(refuse(what(), why));
    }
    require_regular_files(&common_dir).map_err(|error| failed(what(), &error))?;
    Ok(common_dir)
}

/// The directory that `commondir` of a git directory names; the git directory itself without one.
fn read_commondir(git_dir: &Path) -> std::io::Result<PathBuf> {
    match regular_file::read_line(&git_dir.join("commondir")) {
        Ok(named) => fs::canonicalize(git_dir.join(named)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(git_dir.to_owned()),
        Err(error) => Err(error),
    }
}

/// Returns an error if git would find a pipe where it expects a file, and wait for it.
fn require_regular_files(directory: &Path) -> std::io::Result<()> {
    const FILES: [&str; 13] = [
        "HEAD",
        "commondir",
        "config",
        "config.worktree",
        "gitdir",
        "index",
        "info/attributes",
        "info/exclude",
        "info/grafts",
        "logs/HEAD",
        "objects/info/alternates",
        "packed-refs",
        "shallow",
    ];
    FILES.iter().try_for_each(|file| regular_file::require_if_exists(&directory.join(file)))
}

/// The git directory of a checkout, or `place` itself if it is a bare repository.
fn git_directory(path: &Path) -> Option<PathBuf> {
    let git = path.join(".git");
    if let Ok(text) = regular_file::read_line(&git) {
        let named = path.join(text.strip_prefix("gitdir: ")?);
        return fs::canonicalize(named).ok().filter(|named| named.join("HEAD").exists());
    }
    let is_git_dir = |path: &Path| path.join("HEAD").exists() && path.join("objects").is_dir();
    if is_git_dir(&git) {
        return fs::canonicalize(git).ok();
    }
    is_git_dir(path).then(|| path.to_owned())
}

fn failed(what: String, error: &std::io::Error) -> WorkError {
    refuse(what, error.to_string())
}

fn refuse(what: String, why: String) -> WorkError {
    WorkError { what, why, caused_by_agent: false }
}
