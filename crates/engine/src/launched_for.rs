//! The file with the checkout that a run of the control plane works for. It is also the lock of its launch.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;

const CHECKOUT: &str = "checkout";
/// How long a launch waits for another launch of the same run.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn file(state: &Path, id: &AgentId) -> PathBuf {
    RunDirectory::new(state, id.as_str()).path().join(CHECKOUT)
}

/// Writes the checkout of a run, and locks the file against other launches of the run. The lock ends when the file is
/// closed, and with the process.
pub fn write_checkout(state: &Path, id: &AgentId, checkout: &str) -> io::Result<File> {
    let file = file(state, id);
    std::fs::create_dir_all(file.parent().unwrap_or(state))?;
    let mut locked = File::options().create(true).write(true).truncate(false).open(file)?;
    lock(&locked)?;
    locked.set_len(0)?;
    locked.write_all(checkout.as_bytes())?;
    Ok(locked)
}

/// Fails if another server keeps the lock for long: the launch is tried again later.
fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(POLL_INTERVAL);
            }
            Ok(()) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The checkout that the control plane launched a run for; `None` for a run that a person started, and for a launch
/// that was killed before it wrote the path.
pub fn checkout(state: &Path, id: &AgentId) -> io::Result<Option<PathBuf>> {
    match std::fs::read_to_string(file(state, id)) {
        Ok(path) => Ok(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The context of a run: in the checkout that it was launched for, if the control plane launched it.
pub fn context_of(context: &Context, id: &AgentId) -> Result<Context, Failure> {
    let checkout = checkout(&context.state, id).map_err(|error| {
        Failure::general(format!("cannot read which checkout `{id}` works for: {error}"))
    })?;
    Ok(match checkout {
        Some(directory) => Context { directory, ..context.clone() },
        None => context.clone(),
    })
}
