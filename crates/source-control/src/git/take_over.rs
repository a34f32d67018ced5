//! Gives the files of an ended agent's worktree to a new agent.
//!
//! Only the files move: the new worktree has a git directory, a branch and an index of its own, so that no setting
//! or hook of the earlier agent's git directory is used again.
//!
//! ```text
//! <state>/runs/<id>/taking-over   exists until the new worktree is complete
//! <state>/runs/<id>/git-link      the `.git` file of the new worktree, kept while the directories are swapped
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkspaceError;

const MARKER: &str = "taking-over";
const GIT_LINK: &str = "git-link";

/// Operations that git has begun in a worktree and not finished.
const UNFINISHED: [&str; 6] =
    ["rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"];

/// Why the files of a worktree cannot be given to another agent, as far as git is concerned.
pub fn take_over_obstacle(worktree: &Path, git_dir: &Path) -> Option<&'static str> {
    let is_there = |path: PathBuf| fs::symlink_metadata(path).is_ok();
    if !worktree.join(".git").is_file() {
        return Some("its files are missing");
    }
    // The git directories of submodules are inside that of the worktree, which is not used again.
    if is_there(worktree.join(".gitmodules")) || is_there(git_dir.join("modules")) {
        return Some("it has submodules");
    }
    let unfinished = UNFINISHED.iter().any(|name| is_there(git_dir.join(name)));
    unfinished.then_some("a rebase, merge or bisect is unfinished in it")
}

/// A take-over that is under way; every step can be repeated after a kill.
pub(super) struct TakeOver {
    marker: PathBuf,
    git_link: PathBuf,
}

impl TakeOver {
    /// The take-over by the agent with this run directory.
    pub(super) fn by(run_directory: &Path) -> Self {
        Self { marker: run_directory.join(MARKER), git_link: run_directory.join(GIT_LINK) }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.marker.exists()
    }

    pub(super) fn begin(&self) -> Result<(), WorkspaceError> {
        let begun = || {
            if !self.is_under_way() {
                remove_if_there(fs::remove_file(&self.git_link))?;
            }
            written(&self.marker, b"")
        };
        begun().map_err(failed("the take-over cannot be recorded"))
    }

    /// Whether the new worktree was registered, so that its directory is free to be replaced.
    pub(super) fn has_git_link(&self) -> bool {
        self.git_link.exists()
    }

    /// Keeps the `.git` file that git wrote into the new, empty worktree.
    pub(super) fn keep_git_link(&self, path: &Path) -> Result<(), WorkspaceError> {
        let keep = || written(&self.git_link, &fs::read(path.join(".git"))?);
        keep().map_err(failed("the new worktree cannot be recorded"))
    }

    /// Moves the directory `from` to `path`. Whether its files are there: a person may have removed them.
    pub(super) fn move_files(&self, from: &Path, path: &Path) -> Result<bool, WorkspaceError> {
        let moved = || -> io::Result<bool> {
            if from.join(".git").is_file() {
                remove_if_there(fs::remove_file(path.join(".git")))?;
                remove_if_there(fs::remove_dir(path))?;
                fs::rename(from, path)?;
            }
            fs::create_dir_all(path)?;
            let mut has_files = false;
            for entry in fs::read_dir(path)? {
                has_files |= entry?.file_name() != ".git";
            }
            let link = fs::read(&self.git_link)?;
            // Not beside it: what a kill leaves there would be part of the agent's work.
            let beside = self.git_link.parent().unwrap_or(path);
            let mut file = tempfile::Builder::new().prefix(".fresh-").tempfile_in(beside)?;
            file.write_all(&link)?;
            file.as_file().sync_all()?;
            file.persist(path.join(".git")).map_err(|error| error.error)?;
            Ok(has_files)
        };
        moved().map_err(failed("the files of the earlier run cannot be moved"))
    }

    pub(super) fn finish(&self) -> Result<(), WorkspaceError> {
        let removed = || {
            // The marker first: a link without a marker is not used.
            remove_if_there(fs::remove_file(&self.marker))?;
            remove_if_there(fs::remove_file(&self.git_link))
        };
        removed().map_err(failed("the take-over cannot be finished"))
    }
}

fn written(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".fresh-").tempfile_in(parent)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(parent)?.sync_all()
}

fn remove_if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> WorkspaceError {
    move |error| WorkspaceError { what: what.to_owned(), why: error.to_string() }
}
