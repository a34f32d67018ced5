//! Where a run has its things on the host: below `runs/` of the state.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory(PathBuf);

/// Held as long as somebody supervises the run. The kernel lets go of it when they are killed.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunDirectory {
    /// The directory of the run `id`.
    pub fn new(state: &Path, id: &str) -> Self {
        // A sandbox is told places without links on the way.
        let state = fs::canonicalize(state).unwrap_or_else(|_| state.to_path_buf());
        Self(state.join("runs").join(id))
    }

    /// Makes it, with all that is written to below it.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let git = self.git_layer();
        let layers = [git.join("common"), git.join("private")];
        let all = [self.0.clone(), self.home(), self.temp(), self.gate()];
        all.iter().chain(&layers).try_for_each(|place| builder.create(place))
    }

    /// Itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The agent's home.
    pub fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// The agent's temporary files.
    pub fn temp(&self) -> PathBuf {
        self.0.join("temp")
    }

    /// What the agent is granted in files, while it is at work.
    pub fn granted(&self) -> PathBuf {
        self.0.join("granted")
    }

    /// What the gate inside of the sandbox sees: the socket, and nothing else.
    pub fn gate(&self) -> PathBuf {
        self.0.join("gate")
    }

    /// Where the supervisor answers the gate.
    pub fn gate_socket(&self) -> PathBuf {
        self.gate().join("gate.sock")
    }

    /// Where it answers an agent that delegates.
    pub fn delegation_socket(&self) -> PathBuf {
        self.gate().join("delegate.sock")
    }

    /// Where it answers people.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// What the agent's git writes, where it may commit.
    pub fn git_layer(&self) -> PathBuf {
        self.0.join("git")
    }

    /// Every decision, with what was known.
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    /// What the agent program said on standard error.
    pub fn errors(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// Becomes the one supervisor of this run; nothing if there is another.
    pub fn lock(&self) -> io::Result<Option<RunLock>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let file =
            File::options().create(true).truncate(false).write(true).open(self.0.join("lock"))?;
        match file.try_lock() {
            Ok(()) => {
                // Whoever waits for this very process sees that it is the one.
                file.set_len(0)?;
                (&file).write_all(std::process::id().to_string().as_bytes())?;
                Ok(Some(RunLock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether this process supervises it now.
    pub fn is_held_by(&self, process: u32) -> io::Result<bool> {
        // To look whether it is held is to hold it for a moment, which must not be in its way.
        match fs::read_to_string(self.0.join("lock")) {
            Ok(holder) => Ok(holder == process.to_string() && self.is_held()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether somebody supervises it now.
    pub fn is_held(&self) -> io::Result<bool> {
        let file = match File::open(self.0.join("lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
