//! Agents that are being started or resumed. The starting process locks a file named by their id, and the new
//! process inherits the lock: an unlocked file means that the process was killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::{AgentId, Delegate, RunStatus};

use super::service::DelegationService;
use crate::background::Input;
use crate::claiming;
use crate::failure::Failure;

/// A locked marker file: an agent is being started.
pub(super) struct PendingStart {
    path: PathBuf,
    file: File,
    words: bool,
}

impl PendingStart {
    /// The inherited lock of the new process.
    pub(super) fn input(&self) -> io::Result<Input> {
        let file = self.file.try_clone()?;
        Ok(if self.words { Input::Words(file) } else { Input::LockOnly(file) })
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        // A file that is left behind is removed by the next process that finds it.
        let _ = fs::remove_file(&self.path);
    }
}

impl DelegationService {
    fn pending_file(&self, run: &AgentId) -> PathBuf {
        self.context.state.join("starting").join(run.as_str())
    }

    /// Marks an agent as being started, or resumed with this message. Called with the spawn lock, before the
    /// pending state is recorded.
    pub(super) fn pending(
        &self,
        run: &AgentId,
        words: Option<&str>,
    ) -> Result<PendingStart, Failure> {
        let path = self.pending_file(run);
        let hold = || -> io::Result<File> {
            let place = self.context.state.join("starting");
            fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
            let mut options = File::options();
            let mut file = options
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&path)?;
            file.lock()?;
            file.set_len(0)?;
            file.write_all(words.unwrap_or_default().as_bytes())?;
            file.rewind()?;
            Ok(file)
        };
        let file = hold().map_err(|error| {
            Failure::general(format!("{} cannot be locked: {error}", path.display()))
        })?;
        Ok(PendingStart { path, file, words: words.is_some() })
    }

    /// Cleans up after a process that was killed while it started an agent.
    pub fn tidy(&self) -> Result<(), Failure> {
        // The lock is not taken if there is nothing to do.
        if !self.delegates()?.iter().any(|one| one.pending) {
            return Ok(());
        }
        let _turn = self.turn()?;
        for one in self.delegates()?.into_iter().filter(|one| one.pending) {
            self.tidy_one(&one)?;
        }
        Ok(())
    }

    fn tidy_one(&self, one: &Delegate) -> Result<(), Failure> {
        let path = self.pending_file(&one.run);
        let _file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::general(format!("{}: {error}", path.display()))),
            Ok(file) => match file.try_lock() {
                Ok(()) => Some(file),
                Err(TryLockError::WouldBlock) => return Ok(()),
                Err(TryLockError::Error(error)) => {
                    return Err(Failure::general(format!("{}: {error}", path.display())));
                }
            },
        };
        let never = self.attempts(&one.run)?.is_empty() && !self.at_work(&one.run);
        self.change(&one.run, |one| {
            one.pending = false;
            one.closed |= never;
        })?;
        if never {
            let why = Some("the process that started it was killed before it began");
            let failed = self.context.with_store(async |store| {
                Ok(store.change_status(&one.run, RunStatus::Failed, why).await?)
            });
            // It may not be in the ledger at all, and have a claim all the same.
            let _ = failed;
            claiming::expire_claims(&self.context, &one.run)?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::general(format!("{}: {error}", path.display())))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
