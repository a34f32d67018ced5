//! Workspaces as git worktrees, with their task directory in the checkout.
//!
//! ```text
//! <checkout>/tasks/<id>/{task.toml, prompt.md, .gitignore}   what the agent was given
//! <state>/worktrees/<id>/                                     where it works, on agent/<id>
//! <state>/runs/<id>/{lock, ready, spawned.json}               what only we write
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bailiwick_control::ports::{
    Preparation, SeenWorkspace, TaskDirectory, WorkspaceError, Workspaces,
};
use bailiwick_model::AgentId;

use super::command::{Input, remove_git_variables};
use super::refs::{full_branch_name, ref_exists};
use super::repository::Repository;
use super::work::record_spawn;
use super::worktree_list::list_worktrees;

/// Runs the commands of a setup in a worktree. What it starts holds the lock by its standard input.
pub type SetupRunner =
    Arc<dyn Fn(&Path, &Preparation, Option<&File>) -> Result<(), WorkspaceError> + Send + Sync>;

/// Workspaces of one repository.
pub struct WorktreeWorkspaces {
    repository: Repository,
    state: PathBuf,
    base: Option<String>,
    setup: Option<SetupRunner>,
    held: Mutex<Weak<File>>,
    seen: Mutex<Option<Seen>>,
}

/// Held while an agent is spawned, by us and by what we start for it: when we are killed, the lock
/// stays until the last git or setup command of ours has ended as well.
pub struct SpawnLock {
    _file: Arc<File>,
}

impl WorktreeWorkspaces {
    /// Workspaces of `repository`, with what only we write below `state`.
    pub fn new(repository: Repository, state: impl Into<PathBuf>) -> Self {
        Self {
            repository,
            state: state.into(),
            base: None,
            setup: None,
            held: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// The same for agents that start from what the person calls `revision`: if that is a branch,
    /// their work is to land on it.
    #[must_use]
    pub fn spawning_on(mut self, revision: &str) -> Self {
        self.base = Some(revision.to_owned());
        self
    }

    /// The same with somebody else who runs setups; otherwise they run as the person.
    #[must_use]
    pub fn set_up_by(mut self, setup: SetupRunner) -> Self {
        self.setup = Some(setup);
        self
    }

    /// The directory of the agent's task.
    pub fn task_directory(&self, id: &AgentId) -> PathBuf {
        self.repository.root().join("tasks").join(id.as_str())
    }

    /// Makes sure that nobody else spawns this id at the same time.
    pub fn lock(&self, id: &AgentId) -> Result<SpawnLock, WorkspaceError> {
        let what = || format!("`{id}` cannot be locked");
        let run = self.run_directory(id);
        make_private(&run).map_err(|error| failed(what(), &error))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(run.join("lock"))
            .map_err(|error| failed(what(), &error))?;
        match file.try_lock() {
            Ok(()) => {
                let file = Arc::new(file);
                *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
                Ok(SpawnLock { _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(WorkspaceError {
                what: format!("`{id}` is taken"),
                why: "another process spawns, runs or lands it at this moment".to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(failed(what(), &error)),
        }
    }

    fn lock_held(&self) -> Option<Arc<File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn run_directory(&self, id: &AgentId) -> PathBuf {
        self.state.join("runs").join(id.as_str())
    }

    /// Only one worktree is made at a time: git fails where it meets another that is half made.
    fn alone(&self) -> Result<File, WorkspaceError> {
        let place = self.state.join("worktrees");
        let locked = || -> io::Result<File> {
            make_private(&place)?;
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(place.join(".lock"))?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(|error| failed(format!("{} cannot be locked", place.display()), &error))
    }

    /// What git says of the agent's worktree.
    fn listed(&self, id: &AgentId) -> Result<Listed, WorkspaceError> {
        let held = self.lock_held();
        let input = held.as_deref().map_or(Input::Nothing, Input::File);
        let worktrees =
            list_worktrees(&self.repository.git(), input).map_err(|error| WorkspaceError {
                what: "worktrees cannot be listed".to_owned(),
                why: error.to_string(),
            })?;
        let path = self.worktree_path(id);
        // Git tells where it really is; the worktree itself may be gone.
        let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        let path = parent.map_or(path, |parent| parent.join(id.as_str()));
        Ok(match worktrees.iter().find(|worktree| worktree.path == path) {
            None => Listed::Unknown,
            // Git locks a worktree while it fills it: one that is still locked was cut short.
            Some(worktree) if worktree.lock_reason.is_some() => Listed::CutShort,
            Some(_) if path.join(".git").is_file() => Listed::Complete,
            Some(_) => Listed::CutShort,
        })
    }

    fn git<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
        what: &str,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let held = self.lock_held();
        let input = held.as_deref().map_or(Input::Nothing, Input::File);
        let run = self.repository.git().run_with_input(arguments, input);
        run.map_err(|error| WorkspaceError { what: what.to_owned(), why: error.to_string() })
    }

    /// What was seen of this agent since its id is locked, once.
    fn seen_under_lock(&self, id: &AgentId) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        seen.filter(|seen| seen.id == *id && self.lock_held().is_some())
    }

    fn has_branch(&self, branch: &str) -> Result<bool, WorkspaceError> {
        let found = ref_exists(&self.repository.git(), &full_branch_name(branch));
        found.map_err(|error| WorkspaceError {
            what: format!("the branch {branch} cannot be looked up"),
            why: error.to_string(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Unknown,
    CutShort,
    Complete,
}

/// What was seen of an agent's worktree while its id was locked: nobody else changes that meanwhile.
struct Seen {
    id: AgentId,
    listed: Listed,
    branch: bool,
}

impl Workspaces for WorktreeWorkspaces {
    fn observe(&self, id: &AgentId) -> Result<SeenWorkspace, WorkspaceError> {
        let path = self.worktree_path(id);
        let listed = self.listed(id)?;
        let branch = self.has_branch(&id.branch())?;
        let seen = self.lock_held().map(|_| Seen { id: id.clone(), listed, branch });
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(SeenWorkspace {
            task_directory: fs::symlink_metadata(self.task_directory(id)).is_ok(),
            branch,
            worktree: matches!(listed, Listed::Complete),
            obstacle: matches!(listed, Listed::Unknown) && in_the_way(&path),
            ready: self.run_directory(id).join("ready").exists(),
        })
    }

    fn worktree_path(&self, id: &AgentId) -> PathBuf {
        self.state.join("worktrees").join(id.as_str())
    }

    fn write_task(&self, id: &AgentId, files: &TaskDirectory) -> Result<(), WorkspaceError> {
        let target = self.task_directory(id);
        let write = || -> io::Result<()> {
            let tasks = self.repository.root().join("tasks");
            make_directory(&tasks)?;
            let fresh = tempfile::Builder::new().prefix(".spawn-").tempdir_in(&tasks)?;
            // First of all the directory hides itself from git, so that nothing of it is committed.
            for (name, text) in
                [(".gitignore", "*\n"), ("task.toml", &files.task), ("prompt.md", &files.prompt)]
            {
                let mut file = File::create_new(fresh.path().join(name))?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
            }
            fs::rename(fresh.path(), &target)?;
            let _renamed = fresh.keep();
            File::open(&tasks)?.sync_all()
        };
        write().map_err(|error| failed(format!("{} cannot be written", target.display()), &error))
    }

    fn add_worktree(&self, id: &AgentId, base: &str) -> Result<(), WorkspaceError> {
        let _alone = self.alone()?;
        let path = self.worktree_path(id);
        let what = format!("the worktree {} cannot be made", path.display());
        let Some(shown) = path.to_str() else {
            return Err(WorkspaceError { what, why: "its path is not UTF-8".to_owned() });
        };
        // That there was none stays so; one that was there may have been deleted since, by anybody.
        let seen = self.seen_under_lock(id).filter(|seen| seen.listed == Listed::Unknown);
        let listed = match &seen {
            Some(seen) => seen.listed,
            None => self.listed(id)?,
        };
        match listed {
            Listed::Complete => return Ok(()),
            Listed::CutShort => {
                // Git does not remove what it cannot take for a worktree, so the files go first.
                remove(&path).map_err(|error| failed(what.clone(), &error))?;
                self.git(["worktree", "remove", "--force", "--force", shown], &what)?;
            }
            Listed::Unknown => {}
        }
        if let Some(parent) = path.parent() {
            make_private(parent).map_err(|error| failed(what.clone(), &error))?;
        }
        for note in ["ready", "spawned.json"] {
            remove(&self.run_directory(id).join(note))
                .map_err(|error| failed(what.clone(), &error))?;
        }
        let branch = id.branch();
        // A branch that is there was left by the attempt that was cut short: the plan saw to that.
        let there = match seen {
            Some(seen) => seen.branch,
            None => self.has_branch(&branch)?,
        };
        let create = if there { "-B" } else { "-b" };
        self.git(["worktree", "add", "--quiet", create, &branch, shown, base], &what)?;
        Ok(())
    }

    fn make_ready(&self, id: &AgentId, how: &Preparation) -> Result<(), WorkspaceError> {
        let worktree = self.worktree_path(id);
        for path in &how.copy {
            let from = self.repository.root().join(path);
            make_way(&worktree, Path::new(path))
                .and_then(|()| copy(&from, &worktree.join(path)))
                .map_err(|error| {
                failed(format!("{path} cannot be copied into the worktree"), &error)
            })?;
        }
        let held = self.lock_held();
        match &self.setup {
            Some(setup) if !how.setup.is_empty() => setup(&worktree, how, held.as_deref())?,
            Some(_) => {}
            None => run_setup(&worktree, &how.setup, held.as_deref())?,
        }
        let marker = self.run_directory(id).join("ready");
        // No agent has run where the marker is not there yet, and only then is the record true.
        if !marker.exists() {
            let base = self.base.as_deref();
            record_spawn(self.repository.root(), &worktree, &self.state, id, base)
                .map_err(|error| WorkspaceError { what: error.what, why: error.why })?;
        }
        File::create(&marker)
            .and_then(|file| file.sync_all())
            .map_err(|error| failed(format!("{} cannot be written", marker.display()), &error))
    }
}

/// Runs the commands of a setup in a worktree, as the person. What they print goes to standard error:
/// standard output is ours.
pub fn run_setup(
    worktree: &Path,
    commands: &[String],
    held: Option<&File>,
) -> Result<(), WorkspaceError> {
    commands.iter().try_for_each(|command| run_as_person(worktree, command, held))
}

fn run_as_person(
    worktree: &Path,
    command: &str,
    held: Option<&File>,
) -> Result<(), WorkspaceError> {
    let what = format!("the setup command `{command}` failed");
    let empty = match held {
        Some(lock) => lock.try_clone().map(Stdio::from),
        None => Ok(Stdio::null()),
    };
    let mut shell = Command::new("/bin/sh");
    remove_git_variables(&mut shell);
    let status = shell
        .args(["-c", command])
        .current_dir(worktree)
        .stdin(empty.map_err(|error| failed(what.clone(), &error))?)
        .stdout(Stdio::from(io::stderr()))
        .status()
        .map_err(|error| failed(what.clone(), &error))?;
    if status.success() { Ok(()) } else { Err(WorkspaceError { what, why: status.to_string() }) }
}

/// Copies a file, a link or a directory. What is there already must be the same.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        make_directory(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let parent = to.parent().unwrap_or(to);
    let differs = || io::Error::other("the worktree has another file of that name");
    if kind.is_symlink() {
        let target = fs::read_link(from)?;
        return match fs::read_link(to) {
            Ok(there) if there == target => Ok(()),
            Ok(_) => Err(differs()),
            Err(_) => symlink(target, to),
        };
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    if fs::symlink_metadata(to).is_ok() {
        return if fs::read(to)? == fs::read(from)? { Ok(()) } else { Err(differs()) };
    }
    let fresh = tempfile::Builder::new().prefix(".copy-").tempfile_in(parent)?;
    fs::copy(from, fresh.path())?;
    fresh.persist(to).map(drop).map_err(|error| error.error)
}

/// Makes the directories that `path` is in, below `root`.
fn make_way(root: &Path, path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let mut place = root.to_owned();
    for part in parent.components() {
        place.push(part);
        make_directory(&place)?;
    }
    Ok(())
}

/// A link to a directory is none: it could lead out of the repository.
fn make_directory(path: &Path) -> io::Result<()> {
    let other = || io::Error::other(format!("{} is no directory", path.display()));
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::symlink_metadata(path)?.is_dir().then_some(()).ok_or_else(other)
        }
        made => made,
    }
}

/// Whether there is something that is not an empty directory.
fn in_the_way(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    !(found.is_dir() && empty())
}

/// Removes a file or a directory with all that is in it; nothing if it is not there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Makes a directory that only its owner can look into.
fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn failed(what: String, error: &io::Error) -> WorkspaceError {
    WorkspaceError { what, why: error.to_string() }
}
