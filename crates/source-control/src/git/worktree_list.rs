//! The worktrees of a repository, as `git worktree list` prints them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{Git, GitError, Input};

/// Git lists no worktree at all while another process writes the files of a new one.
pub(super) const MAX_RETRIES: u32 = 10;
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(50);

/// A worktree that git has registered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListedWorktree {
    /// Its directory, with symbolic links resolved.
    pub(super) path: PathBuf,
    /// The full name of the branch that is checked out.
    pub(super) branch: Option<Vec<u8>>,
    /// Why it is locked, if it is.
    pub(super) lock_reason: Option<Vec<u8>>,
    /// Its directory is gone.
    pub(super) prunable: bool,
}

impl ListedWorktree {
    /// Git locks a worktree while it creates it: one that still has this lock was not completed.
    pub(super) fn is_initializing(&self) -> bool {
        self.lock_reason.as_deref() == Some(b"initializing")
    }
}

/// Lists the worktrees of a repository.
pub(super) fn list_worktrees(git: &Git, input: Input<'_>) -> Result<Vec<ListedWorktree>, GitError> {
    let mut retries = 0;
    loop {
        match git.run_with_input(["worktree", "list", "--porcelain", "-z"], input) {
            Err(GitError::Failed { .. }) if retries < MAX_RETRIES => {
                retries += 1;
                std::thread::sleep(RETRY_DELAY);
            }
            Err(error) => return Err(error),
            Ok(stdout) => return Ok(parse(&stdout)),
        }
    }
}

/// Attributes end with NUL, and a worktree with an empty attribute.
fn parse(stdout: &[u8]) -> Vec<ListedWorktree> {
    let mut worktrees: Vec<ListedWorktree> = Vec::new();
    for attribute in stdout.split(|byte| *byte == 0) {
        let space = attribute.iter().position(|byte| *byte == b' ').unwrap_or(attribute.len());
        let (name, value) = attribute.split_at_checked(space).unwrap_or((attribute, b""));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if name == b"worktree" {
            let path = PathBuf::from(OsStr::from_bytes(value));
            worktrees.push(ListedWorktree { path, ..ListedWorktree::default() });
        }
        let Some(worktree) = worktrees.last_mut() else { continue };
        match name {
            b"branch" => worktree.branch = Some(value.to_owned()),
            b"locked" => worktree.lock_reason = Some(value.to_owned()),
            b"prunable" => worktree.prunable = true,
            _ => {}
        }
    }
    worktrees
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn branches_locks_and_missing_directories_are_read_from_git() {
        let scratch = Scratch::repository();
        scratch.commit("first");
        let place = std::fs::canonicalize(scratch.place()).unwrap();
        for name in ["locked", "line\nbreak", "gone"] {
            let path = place.join(name);
            scratch.git(&["worktree", "add", "--detach", path.to_str().unwrap()]);
        }
        let (locked, deleted) = (place.join("locked"), place.join("gone"));
        scratch.git(&["worktree", "lock", "--reason", "in use", locked.to_str().unwrap()]);
        std::fs::remove_dir_all(&deleted).unwrap();
        let mut found =
            list_worktrees(&Git::at(scratch.root()), Input::Nothing).unwrap().into_iter();
        let main = found.next().unwrap();
        assert_eq!(main.path, std::fs::canonicalize(scratch.root()).unwrap());
        assert_eq!(main.branch.as_deref(), Some(&b"refs/heads/main"[..]));
        assert_eq!((main.lock_reason, main.prunable), (None, false));
        let mut linked: Vec<ListedWorktree> = found.collect();
        linked.sort_by(|left, right| left.path.cmp(&right.path));
        let no_flags = ListedWorktree::default();
        assert_eq!(
            linked,
            [
                ListedWorktree { path: deleted, prunable: true, ..no_flags.clone() },
                ListedWorktree { path: place.join("line\nbreak"), ..no_flags.clone() },
                ListedWorktree { path: locked, lock_reason: Some(b"in use".to_vec()), ..no_flags },
            ]
        );
    }

    #[test]
    fn worktrees_are_listed_while_another_process_adds_one() {
        let scratch = Scratch::repository();
        scratch.commit("start");
        let other = std::fs::canonicalize(scratch.place()).unwrap().join("other");
        scratch.git(&["worktree", "add", "--quiet", "-b", "other", other.to_str().unwrap()]);
        let git = Git::at(scratch.root());
        let file = scratch.root().join(".git/worktrees/other/commondir");
        let text = std::fs::read(&file).unwrap();
        // The state while git writes the files of a new worktree.
        std::fs::write(&file, "").unwrap();
        let error = git.run(["worktree", "list", "--porcelain", "-z"]).unwrap_err().to_string();
        assert!(error.contains("commondir"), "{error}");
        let completed = std::thread::spawn(move || {
            std::thread::sleep(RETRY_DELAY * 2);
            std::fs::write(&file, text).unwrap();
        });
        let worktrees = list_worktrees(&git, Input::Nothing).unwrap();
        assert!(worktrees.iter().any(|worktree| worktree.path == other), "{worktrees:?}");
        completed.join().unwrap();
    }
}
