//! The paths of a workspace, and the lock that lets one operation at a time change it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_model::Sha256Hex;

use super::{Git, Input, OperationError, Repository, Workspace, file, refused};
use crate::git::worktree_list::list_worktrees;

const LOCK_ATTEMPTS: u32 = 100;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A workspace that was created here and can be removed.
#[derive(Debug, Clone)]
pub(super) struct ManagedWorkspace<'a> {
    pub(super) root: &'a Path,
    /// Its directory below the root, which is also part of the names of its references.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) branch: &'a str,
    pub(super) target: Option<&'a str>,
}

impl<'a> ManagedWorkspace<'a> {
    /// Checks that a workspace is directly below the root, has a plain name, and is not a link.
    pub(super) fn of(root: &'a Path, workspace: &Workspace<'a>) -> Result<Self, OperationError> {
        let outside = || {
            let reason =
                format!("{} is not directly below {}", workspace.path.display(), root.display());
            refused(reason, "only workspaces that were created here can be changed here")
        };
        let name = workspace.path.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
        let parent = workspace.path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        if parent.as_deref() != Some(root) {
            return Err(outside());
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        // The name becomes part of the name of a reference.
        if !name.bytes().all(is_plain) || name.starts_with('-') {
            let reason = format!("`{name}` is not a valid name of a workspace");
            return Err(refused(reason, "use letters, digits, - and _"));
        }
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
            return Err(refused(format!("{} is not a directory", path.display()), "check it"));
        }
        let (branch, target) = (workspace.branch, workspace.target);
        Ok(Self { root, name: name.to_owned(), path, branch, target })
    }

    pub(super) fn removing_path(&self) -> PathBuf {
        self.root.join(".removing").join(&self.name)
    }

    pub(super) fn removed_path(&self) -> PathBuf {
        self.root.join(".removed").join(&self.name)
    }

    pub(super) fn rescue_ref(&self) -> String {
        format!("refs/bailiwick/rescue/{}", self.name)
    }
}

/// A workspace that no other operation changes, not even a git whose parent process was killed.
pub(super) struct LockedWorkspace<'a> {
    pub(super) workspace: ManagedWorkspace<'a>,
    repository: &'a Repository,
    lock: File,
    /// A file that exists during an operation: if it was interrupted, locks of git are stale.
    marker: PathBuf,
}

impl<'a> LockedWorkspace<'a> {
    pub(super) fn acquire(
        repository: &'a Repository,
        state: &Path,
        workspace: ManagedWorkspace<'a>,
    ) -> Result<Self, OperationError> {
        let (lock, name) = take_lock(state, &workspace.path)?;
        let locked = Self { workspace, repository, lock, marker: name.with_extension("under-way") };
        if locked.marker.exists() {
            locked.remove_stale_locks();
        }
        File::create(&locked.marker).map_err(file(&locked.marker))?;
        Ok(locked)
    }

    /// Git in the main repository, for commands about worktrees and references.
    pub(super) fn repository_git(&self) -> Git {
        self.repository.git()
    }

    /// Git in the workspace.
    pub(super) fn git(&self) -> Git {
        Git::at(&self.workspace.path)
    }

    /// Runs git in the main repository; it keeps the lock while it lives.
    pub(super) fn run<'s>(
        &self,
        arguments: impl IntoIterator<Item = &'s str>,
    ) -> Result<(), OperationError> {
        self.repository_git().run_with_input(arguments, self.lock_input())?;
        Ok(())
    }

    /// The input of every git of this operation, so that it keeps the lock while it lives.
    pub(super) fn lock_input(&self) -> Input<'_> {
        Input::File(&self.lock)
    }

    /// Locks the creation and removal of worktrees: git fails if it finds an incomplete one.
    pub(super) fn lock_all_worktrees(&self) -> Result<File, OperationError> {
        let path = self.workspace.root.join(".lock");
        let lock = open(&path)?;
        lock.lock().map_err(file(&path))?;
        Ok(lock)
    }

    /// The git directory of this worktree.
    pub(super) fn git_dir(&self) -> Result<PathBuf, OperationError> {
        git_dir(&self.workspace.path)
    }

    /// The commit of a reference, if it exists.
    pub(super) fn commit(&self, name: &str) -> Result<Option<String>, OperationError> {
        Ok(self.repository.commit(name)?)
    }

    /// An operation was killed here. Its git is dead too, because the lock was free.
    fn remove_stale_locks(&self) {
        let Ok(git_dir) = self.git_dir() else { return };
        for name in ["index.lock", "HEAD.lock"] {
            let _ = fs::remove_file(git_dir.join(name));
        }
    }
}

impl Drop for LockedWorkspace<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.marker);
    }
}

/// The lock of a workspace, and the path of the files about it without their extension.
pub(super) fn take_lock(state: &Path, path: &Path) -> Result<(File, PathBuf), OperationError> {
    let locks = state.join("workspaces");
    create_private_directory(&locks)?;
    let digest = Sha256Hex::of(path.as_os_str().as_encoded_bytes());
    let name = locks.join(digest.prefix(32));
    let lock = open(&name.with_extension("lock"))?;
    if !lock_with_retry(&lock) {
        let reason = format!("another operation is changing {}", path.display());
        return Err(refused(reason, "try again when it has finished"));
    }
    Ok((lock, name))
}

/// Takes the lock, with retries: a process that another thread is starting shares it until it calls
/// `exec`.
fn lock_with_retry(lock: &File) -> bool {
    (0..LOCK_ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(LOCK_RETRY_DELAY);
        }
        lock.try_lock().is_ok()
    })
}

/// The git directory of a worktree.
pub(super) fn git_dir(worktree: &Path) -> Result<PathBuf, OperationError> {
    let git = Git::at(worktree);
    Ok(PathBuf::from(git.line(["rev-parse", "--absolute-git-dir"])?))
}

/// The branch of a worktree of this repository.
pub(super) fn branch_of(repository: &Repository, path: &Path) -> Result<String, OperationError> {
    let not_ours = || {
        let reason = format!("{} is not a worktree of this repository", path.display());
        refused(reason, "create one with provision, or name another")
    };
    let real = fs::canonicalize(path).map_err(|_| not_ours())?;
    let worktrees = list_worktrees(&repository.git(), Input::Nothing)?;
    let worktree = worktrees.iter().find(|one| one.path == real).ok_or_else(not_ours)?;
    let branch = worktree.branch.as_deref().and_then(|name| name.strip_prefix(b"refs/heads/"));
    branch.map(|name| String::from_utf8_lossy(name).into_owned()).ok_or_else(|| {
        refused(
            format!("{} has no branch checked out", path.display()),
            "check out a branch there first",
        )
    })
}

pub(super) fn create_root(root: &Path) -> Result<PathBuf, OperationError> {
    for directory in [root.to_owned(), root.join(".removing"), root.join(".removed")] {
        create_private_directory(&directory)?;
    }
    fs::canonicalize(root).map_err(file(root))
}

fn create_private_directory(path: &Path) -> Result<(), OperationError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(file(path))
}

fn open(path: &Path) -> Result<File, OperationError> {
    let file_options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file_options.map_err(file(path))
}
