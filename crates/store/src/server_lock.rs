//! The lock of the one server that runs the controllers of a database.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use bailiwick_lifecycle::ports::StoreError;
use sqlx::{AnyConnection, Connection as _, Row as _};

use crate::open::Store;

/// How often a server is asked whether the connection that holds the lock still stands.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a server may be away before its lock counts as lost.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(300);

/// Held until it is dropped. The lock ends with the process, too.
#[derive(Debug)]
pub struct ServerLock(Held);

#[derive(Debug)]
enum Held {
    /// Locked as long as it is open.
    File(File),
    Connection {
        connection: AnyConnection,
        url: String,
    },
}

impl Store {
    /// Takes the lock; none if another server has it.
    pub async fn lock_server(&self) -> Result<Option<ServerLock>, StoreError> {
        if self.location.sqlite_file().is_some() {
            let locked = self.lock_file().map_err(|error| self.failure(error.to_string()))?;
            return Ok(locked.map(|file| ServerLock(Held::File(file))));
        }
        let url = self.location.url().unwrap_or_default();
        let locked = lock_connection(&url).await.map_err(|error| self.error(&error))?;
        Ok(locked.map(|connection| ServerLock(Held::Connection { connection, url })))
    }

    fn lock_file(&self) -> std::io::Result<Option<File>> {
        let path = self.location.companion(".serve");
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = File::options().create(true).write(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl ServerLock {
    /// Ends when the lock is lost: another server has it, or the database was away for too long.
    pub async fn lost(self) {
        let (mut connection, url) = match self.0 {
            // Nobody can take the lock of an open file.
            Held::File(file) => {
                std::future::pending::<()>().await;
                drop(file);
                return;
            }
            Held::Connection { connection, url } => (connection, url),
        };
        let mut away = Duration::ZERO;
        while away < RECONNECT_TIMEOUT {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if connection.ping().await.is_ok() {
                away = Duration::ZERO;
                continue;
            }
            away += CHECK_INTERVAL;
            match lock_connection(&url).await {
                Ok(Some(again)) => connection = again,
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }
}

/// A connection that holds the lock; none if another one does. The lock ends with its connection.
async fn lock_connection(url: &str) -> Result<Option<AnyConnection>, sqlx::Error> {
    let mut connection = AnyConnection::connect(url).await?;
    let row = sqlx::query("SELECT pg_try_advisory_lock(7090124316558219002)")
        .fetch_one(&mut connection)
        .await?;
    Ok(row.try_get::<bool, _>(0)?.then_some(connection))
}
