//! Workspaces of agents: git worktrees, with a task directory in the main checkout.
//!
//! ```text
//! <checkout>/tasks/<id>/{task.toml, prompt.md, .gitignore}   the task
//! <state>/worktrees/<id>/                                     the worktree, on the branch agent/<id>
//! <state>/runs/<id>/{lock, ready, spawned.json}               Bailiwick's own files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bailiwick_lifecycle::ports::{
    Preparation, SeenWorkspace, TaskDirectory, WorkspaceError, Workspaces,
};
use bailiwick_model::AgentId;

use super::command::{Git, Input, remove_git_variables};
use super::refs::{full_branch_name, ref_exists};
use super::repository::Repository;
use super::take_over::TakeOver;
use super::work::record_spawn;
use super::worktree_list::{ListedWorktree, MAX_RETRIES, RETRY_DELAY, list_worktrees};

/// Runs the setup commands in a worktree. Its processes read the lock file, so that they keep the lock.
pub type SetupRunner =
    Arc<dyn Fn(&Path, &Preparation, Option<&File>) -> Result<(), WorkspaceError> + Send + Sync>;

/// Workspaces of one repository.
pub struct WorktreeWorkspaces {
    repository: Repository,
    state: PathBuf,
    base: Option<String>,
    setup: Option<SetupRunner>,
    takes_over: Option<PathBuf>,
    lock: Mutex<Weak<File>>,
    observed: Mutex<Option<Observation>>,
}

/// Locks the spawn of an agent. Child processes share the lock: if this process is killed, it lasts until
/// the last git or setup command has ended.
pub struct SpawnLock {
    _file: Arc<File>,
}

impl WorktreeWorkspaces {
    /// Workspaces of `repository`; `state` is the directory of Bailiwick's own files.
    pub fn new(repository: Repository, state: impl Into<PathBuf>) -> Self {
        Self {
            repository,
            state: state.into(),
            base: None,
            setup: None,
            takes_over: None,
            lock: Mutex::default(),
            observed: Mutex::default(),
        }
    }

    /// Agents start from `revision`; if it is a branch, their work is to land on it.
    #[must_use]
    pub fn with_base(mut self, revision: &str) -> Self {
        self.base = Some(revision.to_owned());
        self
    }

    /// Runs setup commands by `setup` instead of as the person.
    #[must_use]
    pub fn with_setup_runner(mut self, setup: SetupRunner) -> Self {
        self.setup = Some(setup);
        self
    }

    /// The new agent gets the files of this worktree, whose agent has ended.
    #[must_use]
    pub fn with_files_of(mut self, worktree: PathBuf) -> Self {
        self.takes_over = Some(worktree);
        self
    }

    /// The task directory of an agent.
    pub fn task_directory(&self, id: &AgentId) -> PathBuf {
        self.repository.root().join("tasks").join(id.as_str())
    }

    /// Locks this id, so that no other process spawns, runs or lands it.
    pub fn lock(&self, id: &AgentId) -> Result<SpawnLock, WorkspaceError> {
        let what = || format!("`{id}` cannot be locked");
        let run = self.run_directory(id);
        create_private_directory(&run).map_err(|error| failed(what(), &error))?;
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
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
                Ok(SpawnLock { _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(WorkspaceError {
                what: format!("`{id}` is in use"),
                why: "another process is spawning, running or landing it".to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(failed(what(), &error)),
        }
    }

    fn current_lock(&self) -> Option<Arc<File>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn run_directory(&self, id: &AgentId) -> PathBuf {
        self.state.join("runs").join(id.as_str())
    }

    /// Locks the creation of worktrees: git fails if it finds another one that is incomplete.
    fn lock_creation(&self) -> Result<File, WorkspaceError> {
        let directory = self.state.join("worktrees");
        let locked = || -> io::Result<File> {
            create_private_directory(&directory)?;
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(directory.join(".lock"))?;
            file.lock()?;
            Ok(file)
        };
        locked()
            .map_err(|error| failed(format!("{} cannot be locked", directory.display()), &error))
    }

    fn registered(&self) -> Result<Vec<ListedWorktree>, WorkspaceError> {
        let lock = self.current_lock();
        let input = lock.as_deref().map_or(Input::Nothing, Input::File);
        list_worktrees(&self.repository.git(), input).map_err(|error| WorkspaceError {
            what: "worktrees cannot be listed".to_owned(),
            why: error.to_string(),
        })
    }

    /// The state of the agent's worktree in git's list.
    fn registration(&self, id: &AgentId) -> Result<Registration, WorkspaceError> {
        let worktrees = self.registered()?;
        let path = as_listed(self.worktree_path(id));
        Ok(match worktrees.iter().find(|worktree| worktree.path == path) {
            None => Registration::Missing,
            // Git locks a worktree while it creates it: a locked one is incomplete.
            Some(worktree) if worktree.lock_reason.is_some() => Registration::Incomplete,
            Some(_) if path.join(".git").is_file() => Registration::Complete,
            Some(_) => Registration::Incomplete,
        })
    }

    fn git<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
        what: &str,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let lock = self.current_lock();
        let input = lock.as_deref().map_or(Input::Nothing, Input::File);
        let run = self.repository.git().run_with_input(arguments, input);
        run.map_err(|error| WorkspaceError { what: what.to_owned(), why: error.to_string() })
    }

    /// Takes the last observation of this agent, if its id was locked since.
    fn take_observation(&self, id: &AgentId) -> Option<Observation> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner).take();
        observed.filter(|observed| observed.id == *id && self.current_lock().is_some())
    }

    /// Creates the worktree of an agent with the files of another. All that they change on `base` is uncommitted.
    fn take_over(&self, id: &AgentId, base: &str, from: &Path) -> Result<(), WorkspaceError> {
        let path = self.worktree_path(id);
        let under_way = TakeOver::by(&self.run_directory(id));
        if !under_way.is_under_way() && self.registration(id)? == Registration::Complete {
            return Ok(());
        }
        let resumed = under_way.is_under_way() && under_way.has_git_link();
        under_way.begin()?;
        if !resumed {
            self.register(id, base, &["--no-checkout"])?;
            under_way.keep_git_link(&path)?;
        }
        let has_files = under_way.move_files(from, &path)?;
        let what = format!("the worktree {} cannot be set to its base", path.display());
        let reset: &[&str] = match has_files {
            true => &["read-tree", base],
            false => &["reset", "--hard", "--quiet", base],
        };
        let lock = self.current_lock();
        let input = lock.as_deref().map_or(Input::Nothing, Input::File);
        let run = Git::at(&path).run_with_input(reset.iter().copied(), input);
        run.map_err(|error| WorkspaceError { what: what.clone(), why: error.to_string() })?;
        let from = as_listed(from.to_owned());
        if let Some(shown) = from.to_str()
            && !from.exists()
            && self.registered()?.iter().any(|worktree| worktree.path == from)
        {
            self.git(["worktree", "remove", "--force", "--force", shown], &what)?;
        }
        under_way.finish()
    }

    /// Creates the worktree and the branch of an agent; `options` are further ones of `git worktree add`. Git fails while
    /// a program that does not know our lock adds another worktree, so this is tried again.
    fn register(&self, id: &AgentId, base: &str, options: &[&str]) -> Result<(), WorkspaceError> {
        let mut retries = 0;
        loop {
            match self.try_to_register(id, base, options) {
                Err(_) if retries < MAX_RETRIES => {
                    retries += 1;
                    std::thread::sleep(RETRY_DELAY);
                }
                result => return result,
            }
        }
    }

    fn try_to_register(
        &self,
        id: &AgentId,
        base: &str,
        options: &[&str],
    ) -> Result<(), WorkspaceError> {
        let path = self.worktree_path(id);
        let what = format!("the worktree {} cannot be created", path.display());
        let Some(shown) = path.to_str() else {
            return Err(WorkspaceError { what, why: "its path is not UTF-8".to_owned() });
        };
        // A missing worktree is still missing; an existing one may have been deleted meanwhile.
        let observed = self
            .take_observation(id)
            .filter(|observed| observed.registration == Registration::Missing);
        let registration = match &observed {
            Some(observed) => observed.registration,
            None => self.registration(id)?,
        };
        match registration {
            Registration::Complete => return Ok(()),
            Registration::Incomplete => {
                // Git does not remove an invalid worktree, so the files are removed first.
                remove(&path).map_err(|error| failed(what.clone(), &error))?;
                self.git(["worktree", "remove", "--force", "--force", shown], &what)?;
            }
            Registration::Missing => {}
        }
        if let Some(parent) = path.parent() {
            create_private_directory(parent).map_err(|error| failed(what.clone(), &error))?;
        }
        for note in ["ready", "spawned.json"] {
            remove(&self.run_directory(id).join(note))
                .map_err(|error| failed(what.clone(), &error))?;
        }
        let branch = id.branch();
        // An existing branch is that of an interrupted spawn: the plan has checked this.
        let branch_exists = match observed {
            Some(observed) => observed.branch,
            None => self.has_branch(&branch)?,
        };
        let create = if branch_exists { "-B" } else { "-b" };
        let add = ["worktree", "add", "--quiet", create, &branch];
        let arguments = add.iter().chain(options).chain([&shown, &base]).copied();
        self.git(arguments, &what)?;
        Ok(())
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
enum Registration {
    Missing,
    Incomplete,
    Complete,
}

/// The state of an agent's worktree while its id is locked: other processes do not change it.
struct Observation {
    id: AgentId,
    registration: Registration,
    branch: bool,
}

impl Workspaces for WorktreeWorkspaces {
    fn observe(&self, id: &AgentId) -> Result<SeenWorkspace, WorkspaceError> {
        let path = self.worktree_path(id);
        let registration = self.registration(id)?;
        let branch = self.has_branch(&id.branch())?;
        let observed =
            self.current_lock().map(|_| Observation { id: id.clone(), registration, branch });
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = observed;
        Ok(SeenWorkspace {
            task_directory: fs::symlink_metadata(self.task_directory(id)).is_ok(),
            branch,
            worktree: matches!(registration, Registration::Complete)
                && !TakeOver::by(&self.run_directory(id)).is_under_way(),
            obstacle: matches!(registration, Registration::Missing) && is_occupied(&path),
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
            create_directory(&tasks)?;
            let temporary = tempfile::Builder::new().prefix(".spawn-").tempdir_in(&tasks)?;
            // Written first: git ignores the directory, so that nothing in it is committed.
            for (name, text) in
                [(".gitignore", "*\n"), ("task.toml", &files.task), ("prompt.md", &files.prompt)]
            {
                let mut file = File::create_new(temporary.path().join(name))?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
            }
            fs::rename(temporary.path(), &target)?;
            let _renamed = temporary.keep();
            File::open(&tasks)?.sync_all()
        };
        write().map_err(|error| failed(format!("{} cannot be written", target.display()), &error))
    }

    fn add_worktree(&self, id: &AgentId, base: &str) -> Result<(), WorkspaceError> {
        let _lock = self.lock_creation()?;
        match &self.takes_over {
            Some(from) => self.take_over(id, base, from),
            None => self.register(id, base, &[]),
        }
    }

    fn make_ready(&self, id: &AgentId, preparation: &Preparation) -> Result<(), WorkspaceError> {
        let worktree = self.worktree_path(id);
        for path in &preparation.copy {
            let from = self.repository.root().join(path);
            create_parents(&worktree, Path::new(path))
                .and_then(|()| copy(&from, &worktree.join(path)))
                .map_err(|error| {
                    failed(format!("{path} cannot be copied into the worktree"), &error)
                })?;
        }
        let lock = self.current_lock();
        match &self.setup {
            Some(setup) if !preparation.setup.is_empty() => {
                setup(&worktree, preparation, lock.as_deref())?
            }
            Some(_) => {}
            None => run_setup(&worktree, &preparation.setup, lock.as_deref())?,
        }
        let marker = self.run_directory(id).join("ready");
        // Without the marker no agent has run yet, and only then the record is correct.
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

/// Runs the setup commands in a worktree, as the person. Their output goes to standard error, because
/// standard output is for results.
pub fn run_setup(
    worktree: &Path,
    commands: &[String],
    lock: Option<&File>,
) -> Result<(), WorkspaceError> {
    commands.iter().try_for_each(|command| run_as_person(worktree, command, lock))
}

fn run_as_person(
    worktree: &Path,
    command: &str,
    lock: Option<&File>,
) -> Result<(), WorkspaceError> {
    let what = format!("the setup command `{command}` failed");
    let empty = match lock {
        Some(file) => file.try_clone().map(Stdio::from),
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

/// Copies a file, a link or a directory. An existing file must be equal.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        create_directory(to)?;
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
            Ok(found) if found == target => Ok(()),
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
    let temporary = tempfile::Builder::new().prefix(".copy-").tempfile_in(parent)?;
    fs::copy(from, temporary.path())?;
    temporary.persist(to).map(drop).map_err(|error| error.error)
}

/// Creates the parent directories of `path` below `root`.
fn create_parents(root: &Path, path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let mut directory = root.to_owned();
    for part in parent.components() {
        directory.push(part);
        create_directory(&directory)?;
    }
    Ok(())
}

/// Creates a directory. A link to a directory is refused: it could point out of the repository.
fn create_directory(path: &Path) -> io::Result<()> {
    let other = || io::Error::other(format!("{} is not a directory", path.display()));
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::symlink_metadata(path)?.is_dir().then_some(()).ok_or_else(other)
        }
        created => created,
    }
}

/// A path as git lists it: resolved, though the worktree itself may be gone.
fn as_listed(path: PathBuf) -> PathBuf {
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        (Some(_) | None, _) => path,
    }
}

/// Whether the path exists and is not an empty directory.
fn is_occupied(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    !(found.is_dir() && empty())
}

/// Removes a file, or a directory with its content, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Creates a directory that only its owner can read.
fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn failed(what: String, error: &io::Error) -> WorkspaceError {
    WorkspaceError { what, why: error.to_string() }
}
