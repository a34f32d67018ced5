//! The database of a command, opened once; blocking access to its events and attempts.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bailiwick_lifecycle::ports::{Events, StoreError};
use bailiwick_model::event::{EventKind, ReportedBy};
use bailiwick_model::{AgentId, Attempt, Event};
use bailiwick_store::{Location, Store};
use tokio::runtime::{Handle, Runtime};

use crate::failure::Failure;
use crate::system;

/// The database of a command. It is opened at first use and shared from then on: opening and closing it takes
/// longer than most queries.
#[derive(Clone)]
pub struct Database {
    location: Location,
    opened: Arc<Mutex<Option<Opened>>>,
}

/// An open database and the file that it was opened from.
struct Opened {
    file: Identity,
    database: Arc<OpenDatabase>,
}

/// Device and inode of the database file; constant for a server.
type Identity = Option<(u64, u64)>;

impl Database {
    /// The database at a location.
    pub fn at(location: Location) -> Self {
        Self { location, opened: Arc::default() }
    }

    /// Where the database is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Whether it may have rows. A missing file is not created for that.
    pub fn exists(&self) -> bool {
        self.location.sqlite_file().is_none_or(Path::exists)
    }

    /// Tells another Bailiwick process to use it. A password is not for arguments, which everybody can read.
    pub fn pass_on(&self, command: &mut Command) {
        match (self.location.sqlite_file(), self.location.secret_text()) {
            (Some(file), _) => drop(command.arg("--db").arg(file)),
            (None, text) => drop(command.env("KEI_LEDGER_DB", text.unwrap_or_default())),
        }
    }

    /// Opens it, unless the same file is open already. A failed open is tried again.
    pub fn open(&self) -> Result<Arc<OpenDatabase>, Failure> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Opened { file, database }) = &*opened
            && file.is_some()
            && *file == self.identity()
        {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new(OpenDatabase::open(self.location.clone())?);
        *opened = Some(Opened { file: self.identity(), database: Arc::clone(&database) });
        Ok(database)
    }

    fn identity(&self) -> Identity {
        let Some(file) = self.location.sqlite_file() else { return Some((0, 0)) };
        std::fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Database").field(&self.location).finish()
    }
}

impl fmt::Display for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(formatter)
    }
}

/// A database that is open.
pub struct OpenDatabase {
    runtime: &'static Runtime,
    store: Store,
}

impl OpenDatabase {
    fn open(location: Location) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let store = wait(runtime, Store::open(location))?;
        Ok(Self { runtime, store })
    }

    /// Calls a function with it.
    pub fn with<T>(&self, work: impl AsyncFnOnce(&Store) -> T) -> T {
        wait(self.runtime, work(&self.store))
    }

    /// Stores events that this process reports, in one transaction.
    pub fn record_events(
        &self,
        run: &AgentId,
        kinds: impl IntoIterator<Item = EventKind>,
    ) -> Result<(), StoreError> {
        let at = system::now_ms();
        let event = |what| Event {
            number: 0,
            at,
            reported_by: ReportedBy::Supervisor,
            agent: None,
            what,
            raw: None,
        };
        let mut events: Vec<Event> = kinds.into_iter().map(event).collect();
        if events.is_empty() {
            return Ok(());
        }
        self.with(async |store| store.append_events(run, &mut events).await)
    }

    /// Records the state of an attempt.
    pub fn update(&self, attempt: &Attempt) -> Result<(), StoreError> {
        self.with(async |store| store.update_attempt(attempt).await)
    }
}

impl Drop for OpenDatabase {
    /// Checkpoints the write-ahead log, so that the next process has less to read.
    fn drop(&mut self) {
        // Blocking is not allowed inside another runtime.
        if Handle::try_current().is_err() {
            wait(self.runtime, self.store.close());
        }
    }
}

/// Blocks on a future that needs no database.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(wait(runtime()?, work))
}

/// Blocks on a future. The future is boxed: otherwise the runtime is compiled for every caller, which was a
/// tenth of this crate's code.
pub fn wait<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
    runtime.block_on(work)
}

/// The runtime of all databases in this process. It has its own thread, so that a slow caller does not stop
/// the others.
fn runtime() -> Result<&'static Runtime, Failure> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("database")
        // Requests to forges run on it as well.
        .enable_all()
        .build()
        .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// The events of one run.
pub struct DatabaseEvents {
    pub database: Arc<OpenDatabase>,
    pub run: AgentId,
}

impl Events for DatabaseEvents {
    fn store(&mut self, events: &mut [Event]) -> Result<(), StoreError> {
        self.database.with(async |store| store.append_events(&self.run, events).await)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Database, Location};

    #[test]
    fn database_is_opened_once_and_failed_open_is_retried() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.db");
        std::fs::write(&file, "no database at all").unwrap();
        let database = Database::at(Location::file(&file));
        assert!(database.open().is_err());
        std::fs::remove_file(&file).unwrap();
        let first = database.open().unwrap();
        let other = database.clone();
        let second = std::thread::spawn(move || other.open().unwrap()).join().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(second.with(async |store| store.list(None).await).unwrap(), []);
        // A replaced file is opened as another database.
        std::fs::rename(&file, directory.path().join("y.db")).unwrap();
        let third = database.open().unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
        assert!(file.exists());
        assert!(Arc::ptr_eq(&third, &database.open().unwrap()));
    }

    /// Tasks return connections to the pool, so the runtime must make progress while callers block.
    #[test]
    fn slow_caller_does_not_block_others() {
        let directory = tempfile::tempdir().unwrap();
        let store_handle =
            Database::at(Location::file(directory.path().join("x.db"))).open().unwrap();
        // Other tests may drive the runtime for some time.
        for _ in 0..50 {
            let (slow, (begun, begin)) = (Arc::clone(&store_handle), std::sync::mpsc::channel());
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let slow = std::thread::spawn(move || {
                slow.with(async |store| {
                    let found = store.list(None).await;
                    begun.send(()).unwrap();
                    // Creates a worktree with its installed dependencies.
                    wait.recv().unwrap();
                    found.unwrap()
                })
            });
            begin.recv().unwrap();
            for _ in 0..20 {
                assert_eq!(store_handle.with(async |store| store.list(None).await).unwrap(), []);
            }
            go.send(()).unwrap();
            assert_eq!(slow.join().unwrap(), []);
        }
    }

    /// Closing the last handle removes the files beside the database; inside a runtime this is not awaited.
    #[test]
    fn closing_the_last_handle_removes_the_wal_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.db");
        let wal = directory.path().join("x.db-wal");
        let database = Database::at(Location::file(&file));
        let handle = database.open().unwrap();
        assert!(wal.exists());
        drop(database);
        assert!(wal.exists(), "another handle is still open");
        drop(handle);
        assert!(!wal.exists());
        let again = Database::at(Location::file(&file)).open().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { drop(again) });
    }
}
