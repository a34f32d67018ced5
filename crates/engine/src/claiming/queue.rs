//! The queue of waiting claims: one file each, locked as long as its owner waits. The kernel unlocks it when
//! the owner is killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use bailiwick_lifecycle::delegation::claim::ClaimRequest;
use bailiwick_store::Location;

/// The queue of all processes that share a database.
pub(super) struct Queue {
    place: PathBuf,
}

/// A place in the queue.
pub(super) struct Ticket {
    number: u64,
    path: PathBuf,
    _file: File,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A file that is left behind is recognised by its missing lock.
        let _ = fs::remove_file(&self.path);
    }
}

impl Queue {
    /// The one of a database.
    pub(super) fn beside(database: &Location) -> Self {
        Self { place: database.companion(".waiting") }
    }

    /// Enters the queue at its end. Every earlier entry is written and locked before this one gets its
    /// number.
    pub(super) fn enter(&self, request: &ClaimRequest) -> io::Result<Ticket> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.place)?;
        let turn = self.place.join("turn");
        let turn = File::options().create(true).truncate(false).write(true).open(turn)?;
        turn.lock()?;
        let number = self.numbers()?.into_iter().max().map_or(1, |last| last.saturating_add(1));
        let path = self.place.join(number.to_string());
        let mut file = File::options().create_new(true).write(true).open(&path)?;
        file.lock()?;
        file.write_all(&serde_json::to_vec(request)?)?;
        Ok(Ticket { number, path, _file: file })
    }

    /// The requests before this entry, oldest first; all requests if it is not in the queue.
    pub(super) fn before(&self, ticket: Option<&Ticket>) -> io::Result<Vec<ClaimRequest>> {
        let mut numbers = self.numbers()?;
        numbers.retain(|number| ticket.is_none_or(|own| *number < own.number));
        numbers.sort_unstable();
        let mut options = Vec::new();
        for number in numbers {
            let path = self.place.join(number.to_string());
            let file = match File::open(&path) {
                Ok(file) => file,
                // Its owner no longer waits.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match file.try_lock_shared() {
                // An entry without a content is still being written.
                Ok(()) if ticket.is_none() => {}
                Ok(()) => drop(fs::remove_file(&path)),
                Err(TryLockError::WouldBlock) => {
                    // The file may be removed already, or not be written yet.
                    options
                        .extend(serde_json::from_slice(&fs::read(&path).unwrap_or_default()).ok());
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(options)
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }
}
