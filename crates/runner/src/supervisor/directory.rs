//! The directory of a run on the host: below `runs/` of the state directory.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory(PathBuf);

/// The lock of the supervisor. The kernel releases it when the process dies.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Prevents a run without a supervisor from being started.
#[derive(Debug)]
pub struct StartBlock {
    _file: File,
}

/// How long a reader holds the lock, and how often it is retried.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(2);
const MAX_LOCK_ATTEMPTS: u32 = 1_000;

impl RunDirectory {
    /// The directory of the run `id`.
    pub fn new(state: &Path, id: &str) -> Self {
        // A sandbox needs paths without links.
        let state = fs::canonicalize(state).unwrap_or_else(|_| state.to_path_buf());
        Self(state.join("runs").join(id))
    }

    /// Creates it with its subdirectories.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let git = self.git_layer();
        let layers = [git.join("common"), git.join("private"), self.scratch()];
        let all = [self.0.clone(), self.home(), self.temp(), self.gate()];
        all.iter().chain(&layers).try_for_each(|place| builder.create(place))
    }

    /// Its path.
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

    /// Granted secrets as files, while the agent runs.
    pub fn granted(&self) -> PathBuf {
        self.0.join("granted")
    }

    /// The files of its skills.
    pub fn skills(&self) -> PathBuf {
        self.0.join("skills")
    }

    /// All that the gate sees inside of the sandbox: the socket.
    pub fn gate(&self) -> PathBuf {
        self.0.join("gate")
    }

    /// The socket of the gate.
    pub fn gate_socket(&self) -> PathBuf {
        self.gate().join("gate.sock")
    }

    /// The socket of an agent that delegates.
    pub fn delegation_socket(&self) -> PathBuf {
        self.gate().join("delegate.sock")
    }

    /// The control socket for people.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// Messages that the agent has not received, one JSON string per line.
    pub fn pending_messages_file(&self) -> PathBuf {
        self.0.join("unheard.jsonl")
    }

    /// The messages that the agent has not received, oldest first.
    pub fn pending_messages(&self) -> io::Result<Vec<String>> {
        Ok(self
            .read_messages_file()?
            .split(|byte| *byte == b'\n')
            .filter_map(parse_message)
            .collect())
    }

    fn read_messages_file(&self) -> io::Result<Vec<u8>> {
        match fs::read(self.pending_messages_file()) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Stores a message for the agent until it has received it.
    pub fn add_message(&self, text: &str) -> io::Result<()> {
        let _lock = self.lock_messages()?;
        let mut options = File::options();
        let mut file = options
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(self.pending_messages_file())?;
        let mut line = serde_json::to_string(text)?;
        line.push('\n');
        // A line that was cut off must not damage this one.
        if is_cut_off(&file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())
    }

    /// Removes the first `count` messages of `pending_messages`; later ones stay.
    pub fn acknowledge(&self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let _lock = self.lock_messages()?;
        let messages = self.read_messages_file()?;
        let mut passed = 0;
        let rest = messages.split_inclusive(|byte| *byte == b'\n').skip_while(|line| {
            let was_received = passed < count;
            passed += usize::from(parse_message(line).is_some());
            was_received
        });
        let rest: Vec<&[u8]> = rest.collect();
        if rest.iter().all(|line| parse_message(line).is_none()) {
            return match fs::remove_file(self.pending_messages_file()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        // A kill at this point loses nothing.
        let replacement = self.pending_messages_file().with_extension("new");
        let mut options = File::options();
        let mut file =
            options.create(true).write(true).truncate(true).mode(0o600).open(&replacement)?;
        file.write_all(&rest.concat())?;
        fs::rename(replacement, self.pending_messages_file())
    }

    /// Locks the messages file while it is changed or replaced.
    fn lock_messages(&self) -> io::Result<File> {
        let place = self.0.join("unheard.lock");
        let file =
            File::options().create(true).truncate(false).write(true).mode(0o600).open(place)?;
        file.lock()?;
        Ok(file)
    }

    /// Directories that only the agent needs: removed when its work has landed or was rejected.
    pub fn private_places(&self) -> [PathBuf; 5] {
        [self.home(), self.temp(), self.gate(), self.git_layer(), self.scratch()]
    }

    /// The git objects and refs of an agent that may commit.
    pub fn git_layer(&self) -> PathBuf {
        self.0.join("git")
    }

    /// Scratch space for files outside of the agent's scope, mostly build output. It never lands.
    pub fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// The files of the scratch space, by their path in the worktree.
    pub fn written_outside_scope(&self) -> PathBuf {
        self.scratch().join("upper")
    }

    /// Forbidden files that were removed from the worktree.
    pub fn removed(&self) -> PathBuf {
        self.0.join("removed")
    }

    /// The ignore rules of the base, in one file.
    pub fn ignore_rules(&self) -> PathBuf {
        self.0.join("ignored")
    }

    /// The untracked files that were in the worktree before the agent first started.
    pub fn files_before(&self) -> PathBuf {
        self.0.join("files-before")
    }

    /// The log of all decisions with their facts.
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    /// The standard error of the agent program.
    pub fn errors(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// Acquires the supervisor's lock; `None` if another process has it. Waits for readers.
    pub fn lock(&self) -> io::Result<Option<RunLock>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let file = self.lock_file()?;
        for _ in 0..MAX_LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => {
                    // Shows waiting processes which process has the lock.
                    file.set_len(0)?;
                    (&file).write_all(std::process::id().to_string().as_bytes())?;
                    return Ok(Some(RunLock { _file: file }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if !is_shared(&file)? {
                return Ok(None);
            }
            file.unlock()?;
            std::thread::sleep(LOCK_RETRY_PAUSE);
        }
        Ok(None)
    }

    /// Prevents a run from being started; `None` if it has a supervisor. It is held for moments: a supervisor that
    /// starts meanwhile waits.
    pub fn block_start(&self) -> io::Result<Option<StartBlock>> {
        let file = self.lock_file()?;
        Ok(is_shared(&file)?.then_some(StartBlock { _file: file }))
    }

    fn lock_file(&self) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.0.join("lock"))
    }

    /// Whether this process supervises the run now.
    pub fn is_supervised_by(&self, process: u32) -> io::Result<bool> {
        // Reads the pid first: a test of the lock acquires it for a moment, which could disturb its owner.
        match fs::read_to_string(self.0.join("lock")) {
            Ok(holder) => Ok(holder == process.to_string() && self.is_supervised()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a supervisor is running.
    pub fn is_supervised(&self) -> io::Result<bool> {
        let file = match File::open(self.0.join("lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(!is_shared(&file)?)
    }
}

/// Parses a stored message. A line that is half written is none: its sender got no confirmation.
fn parse_message(line: &[u8]) -> Option<String> {
    serde_json::from_slice(line).ok()
}

/// Whether the last line of a file is half written.
fn is_cut_off(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

/// Acquires the lock shared; false if a supervisor has it.
fn is_shared(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
#[cfg(test)]
mod tests;
