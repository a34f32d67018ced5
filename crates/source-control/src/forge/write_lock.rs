//! One write at a time per key on this machine. A server that was paused in the middle of a write may continue when
//! another one leads: the other one waits, and then finds what was written.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use bailiwick_fleet::ports::ForgeError;
use bailiwick_model::Sha256Hex;

/// Directory of the locks in the state directory. Keys with the same beginning of their digest share a file, so that the
/// number of files is limited.
const DIRECTORY: &str = "write-locks";

/// A thread that waited for the lock would keep the server from stopping.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for other writes with the same key. The lock ends when the file is closed, and with the process.
pub(super) async fn lock_write(state: &Path, key: &str) -> Result<File, ForgeError> {
    let lock = async {
        let file = open(&state.join(DIRECTORY), &Sha256Hex::of(key))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    };
    let failed = |error| ForgeError::Unavailable(format!("the write cannot be locked: {error}"));
    lock.await.map_err(failed)
}

fn open(directory: &Path, digest: &Sha256Hex) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let file = directory.join(digest.prefix(2));
    File::options().create(true).write(true).truncate(false).open(file)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::lock_write;

    #[tokio::test]
    async fn write_waits_for_another_one_with_the_same_key() {
        let state = tempfile::tempdir().unwrap();
        let first = lock_write(state.path(), "one").await.unwrap();
        lock_write(state.path(), "another").await.unwrap();
        let path = state.path().to_owned();
        let second = tokio::spawn(async move { lock_write(&path, "one").await.is_ok() });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!second.is_finished());
        drop(first);
        assert!(second.await.unwrap());
    }
}
