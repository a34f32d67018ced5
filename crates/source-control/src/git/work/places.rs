//! Where a repository and one agent's worktree have their things, found without asking git.
//!
//! The agent can write the `.git` of its worktree: it counts only if the repository agrees.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_control::ports::WorkError;

use super::plain_file;
use crate::git::command::Git;

/// The directories of one agent's worktree and of the repository that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// What all worktrees share.
    pub(super) common: PathBuf,
    /// What belongs to the agent's worktree alone; the same as `common` in a main checkout.
    pub(super) private: PathBuf,
    /// The agent's worktree.
    pub(super) worktree: PathBuf,
}

impl Places {
    /// The worktree of an agent, which must be one of the repository that `repository` belongs to.
    pub(super) fn observe(repository: &Path, worktree: &Path) -> Result<Self, WorkError> {
        let common = common(repository)?;
        let what = || format!("{} cannot be taken for a worktree", worktree.display());
        let place = fs::canonicalize(worktree).map_err(|error| failed(what(), &error))?;
        let git = place.join(".git");
        if fs::symlink_metadata(&git).is_ok_and(|found| found.is_symlink()) {
            return Err(refuse(what(), "its .git is a link".to_owned()));
        }
        let Some(private) = git_directory(&place) else {
            return Err(refuse(what(), "it has no .git that leads anywhere".to_owned()));
        };
        if private == common {
            return Ok(Self { common, private, worktree: place });
        }
        let registered = private.parent() == Some(&common.join("worktrees"));
        // Git writes down where the worktree is; only that makes the two belong together.
        let back = plain_file::line(&private.join("gitdir")).ok();
        let back = back.and_then(|text| fs::canonicalize(private.join(text)).ok());
        if !registered || back.as_deref() != Some(&git) {
            let why =
                format!("its .git leads to {}, not to {}", private.display(), common.display());
            return Err(refuse(what(), why));
        }
        // Git would take configuration and references from wherever this leads.
        let shared = shared(&private).map_err(|error| failed(what(), &error))?;
        if shared != common {
            let why = format!(
                "{} leads to {}, not to {}",
                private.join("commondir").display(),
                shared.display(),
                common.display()
            );
            return Err(refuse(what(), why));
        }
        require_plain(&private).map_err(|error| failed(what(), &error))?;
        Ok(Self { common, private, worktree: place })
    }

    /// Git in what all worktrees share.
    pub(super) fn git(&self) -> Git {
        Git::at(&self.common)
    }

    /// Git in the agent's worktree, whatever its `.git` and `commondir` say.
    pub(super) fn agent_git(&self) -> Git {
        let git = Git::at(&self.worktree)
            .with_env("GIT_DIR", &self.private)
            .with_env("GIT_WORK_TREE", &self.worktree);
        if self.private == self.common {
            return git;
        }
        git.with_env("GIT_COMMON_DIR", &self.common)
    }

    /// Where the objects are.
    pub(super) fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }
}

/// What all worktrees of a repository share; `place` is a checkout, a worktree or a bare repository.
pub(super) fn common(place: &Path) -> Result<PathBuf, WorkError> {
    let what = || format!("{} cannot be taken for a repository", place.display());
    let place = fs::canonicalize(place).map_err(|error| failed(what(), &error))?;
    let Some(private) = place.ancestors().find_map(git_directory) else {
        return Err(refuse(what(), "there is no git repository".to_owned()));
    };
    let common = shared(&private).map_err(|error| failed(what(), &error))?;
    // A linked worktree is below what it shares, and nothing else shares anything.
    let above = private.parent().filter(|above| above.ends_with("worktrees"));
    let expected = if common == private { None } else { Some(&common) };
    if expected.map(PathBuf::as_path) != expected.and(above).and_then(Path::parent) {
        let place = private.join("commondir");
        let why = format!("{} leads to {}", place.display(), common.display());
        return Err(refuse(what(), why));
    }
    require_plain(&common).map_err(|error| failed(what(), &error))?;
    Ok(common)
}

/// Where `commondir` of a git directory leads; the directory itself if there is none.
fn shared(private: &Path) -> std::io::Result<PathBuf> {
    match plain_file::line(&private.join("commondir")) {
        Ok(named) => fs::canonicalize(private.join(named)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(private.to_owned()),
        Err(error) => Err(error),
    }
}

/// An error if git would have to wait for a pipe where it looks for a file.
fn require_plain(directory: &Path) -> std::io::Result<()> {
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
    FILES.iter().try_for_each(|file| plain_file::require_if_there(&directory.join(file)))
}

/// The directory that `.git` of this place is or names, or the place itself where it is bare.
fn git_directory(place: &Path) -> Option<PathBuf> {
    let git = place.join(".git");
    if let Ok(text) = plain_file::line(&git) {
        let named = place.join(text.strip_prefix("gitdir: ")?);
        return fs::canonicalize(named).ok().filter(|named| named.join("HEAD").exists());
    }
    let is_one = |place: &Path| place.join("HEAD").exists() && place.join("objects").is_dir();
    if is_one(&git) {
        return fs::canonicalize(git).ok();
    }
    is_one(place).then(|| place.to_owned())
}

fn failed(what: String, error: &std::io::Error) -> WorkError {
    refuse(what, error.to_string())
}

fn refuse(what: String, why: String) -> WorkError {
    WorkError { what, why, of_tree: false }
}
