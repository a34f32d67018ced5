//! Where a workspace is, and that one verb at a time works on it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_model::Sha256Hex;

use super::{Git, Input, Repository, VerbError, Workspace, file, refused};
use crate::git::worktree_list::list_worktrees;

/// A workspace that is ours to take away.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) root: &'a Path,
    /// Its name below the root, by which its references are called.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) branch: &'a str,
    pub(super) target: &'a str,
}

impl<'a> Place<'a> {
    /// Directly below the root, by a plain name, and no link to somewhere else.
    pub(super) fn of(root: &'a Path, workspace: &Workspace<'a>) -> Result<Self, VerbError> {
        let outside = || {
            let reason =
                format!("{} is not directly below {}", workspace.path.display(), root.display());
            refused(reason, "only workspaces that were made here can be changed here")
        };
        let name = workspace.path.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
        let parent = workspace.path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        if parent.as_deref() != Some(root) {
            return Err(outside());
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        // The name becomes part of a reference's.
        if !name.bytes().all(plain) || name.starts_with('-') {
            let reason = format!("`{name}` is no name of a workspace");
            return Err(refused(reason, "use letters, digits, - and _"));
        }
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
            return Err(refused(format!("{} is no directory", path.display()), "look at it"));
        }
        let (branch, target) = (workspace.branch, workspace.target);
        Ok(Self { root, name: name.to_owned(), path, branch, target })
    }

    pub(super) fn removing(&self) -> PathBuf {
        self.root.join(".removing").join(&self.name)
    }

    pub(super) fn removed(&self) -> PathBuf {
        self.root.join(".removed").join(&self.name)
    }

    pub(super) fn rescue(&self) -> String {
        format!("refs/bailiwick/rescue/{}", self.name)
    }
}

/// A workspace that nobody else works on by a verb, not even a git of ours whose parent was killed.
pub(super) struct Held<'a> {
    pub(super) place: Place<'a>,
    repository: &'a Repository,
    lock: File,
    /// Written while a verb is under way: locks of git's that it leaves are nobody's.
    under_way: PathBuf,
}

impl<'a> Held<'a> {
    pub(super) fn take(
        repository: &'a Repository,
        state: &Path,
        place: Place<'a>,
    ) -> Result<Self, VerbError> {
        let locks = state.join("workspaces");
        make_private(&locks)?;
        let digest = Sha256Hex::of(place.path.as_os_str().as_encoded_bytes());
        let name = locks.join(digest.prefix(32));
        let lock = open(&name.with_extension("lock"))?;
        if !locked(&lock) {
            let reason = format!("something is being done with {} now", place.path.display());
            return Err(refused(reason, "try again when it is done"));
        }
        let held = Self { place, repository, lock, under_way: name.with_extension("under-way") };
        if held.under_way.exists() {
            held.break_locks();
        }
        File::create(&held.under_way).map_err(file(&held.under_way))?;
        Ok(held)
    }

    /// Git in the repository that everything belongs to, for what is done to worktrees as a whole.
    pub(super) fn common(&self) -> Git {
        self.repository.git()
    }

    /// Git in the workspace.
    pub(super) fn git(&self) -> Git {
        Git::at(&self.place.path)
    }

    /// What every git of this verb reads, so that it holds the lock for as long as it lives.
    pub(super) fn input(&self) -> Input<'_> {
        Input::File(&self.lock)
    }

    /// Only one worktree is made or taken away at a time: git stumbles over others' half-made ones.
    pub(super) fn alone(&self) -> Result<File, VerbError> {
        let place = self.place.root.join(".lock");
        let lock = open(&place)?;
        lock.lock().map_err(file(&place))?;
        Ok(lock)
    }

    /// The directory that git has for this worktree alone.
    pub(super) fn private(&self) -> Result<PathBuf, VerbError> {
        private(&self.place.path)
    }

    /// The commit of a reference; nothing if there is none.
    pub(super) fn commit(&self, name: &str) -> Result<Option<String>, VerbError> {
        Ok(self.repository.commit(name)?)
    }

    /// A verb of ours was killed here: its git has died too, since we have the lock.
    fn break_locks(&self) {
        let Ok(private) = self.private() else { return };
        for name in ["index.lock", "HEAD.lock"] {
            let _ = fs::remove_file(private.join(name));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.under_way);
    }
}

/// Whether the lock is ours. It is waited for a little: a process that another thread is just starting
/// has it too, until it has become another program.
fn locked(lock: &File) -> bool {
    (0..100).any(|tried| {
        if tried > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        lock.try_lock().is_ok()
    })
}

/// The directory that git has for a worktree, which must lead back to it.
pub(super) fn private(worktree: &Path) -> Result<PathBuf, VerbError> {
    let git = Git::at(worktree);
    Ok(PathBuf::from(git.line(["rev-parse", "--absolute-git-dir"])?))
}

/// The branch of a worktree, which must be one of this repository.
pub(super) fn branch_of(repository: &Repository, path: &Path) -> Result<String, VerbError> {
    let stranger = || {
        let reason = format!("{} is no worktree of this repository", path.display());
        refused(reason, "make one with provision, or name another")
    };
    let real = fs::canonicalize(path).map_err(|_| stranger())?;
    let worktrees = list_worktrees(&repository.git(), Input::Nothing)?;
    let worktree = worktrees.iter().find(|one| one.path == real).ok_or_else(stranger)?;
    let branch = worktree.branch.as_deref().and_then(|name| name.strip_prefix(b"refs/heads/"));
    branch.map(|name| String::from_utf8_lossy(name).into_owned()).ok_or_else(|| {
        refused(format!("{} is on no branch", path.display()), "check a branch out there first")
    })
}

pub(super) fn make_root(root: &Path) -> Result<PathBuf, VerbError> {
    for directory in [root.to_owned(), root.join(".removing"), root.join(".removed")] {
        make_private(&directory)?;
    }
    fs::canonicalize(root).map_err(file(root))
}

fn make_private(path: &Path) -> Result<(), VerbError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(file(path))
}

fn open(path: &Path) -> Result<File, VerbError> {
    let file_options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file_options.map_err(file(path))
}
