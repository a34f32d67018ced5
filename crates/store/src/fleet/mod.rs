//! The resources of the control plane in SQL, with the behaviour of the store in memory (`bailiwick_fleet::ports`).
//!
//! Writers of this process wait for each other in order; writers of other processes wait for the lock of the
//! database. One version number counts all changes. There is only one writer at a time, so versions become
//! visible in order.

mod audit;
mod blobs;
mod changes;
mod counting;
mod intake;
mod key;
mod listing;
mod people;
mod reindex;
mod row;
mod saved_filters;
mod sealed;
mod secrets;
mod statements;
mod statuses;
mod terms;
mod tokens;
mod transaction;
mod write_check;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bailiwick_fleet::ports::{Applied, FleetError, Write};
use bailiwick_resources::Moment;
use tokio::sync::{Mutex, watch};

use crate::connections::ConnectionPool;
use crate::database_file::DatabaseFile;
use crate::location::Location;
use crate::queue_signals::QueueSignals;
use crate::sql::{BoxFuture, DatabaseKind, database_message};

use intake::Intake;
pub(crate) use reindex::Rebuild;
pub(crate) use sealed::Sealed;

/// The state of the resource store, shared with the tasks that write for many callers.
#[derive(Debug)]
pub(crate) struct Fleet {
    location: Location,
    pub(super) database_kind: DatabaseKind,
    /// The file of an SQLite database.
    file: Option<DatabaseFile>,
    pool: ConnectionPool,
    /// The only connection that writes, so that its page cache stays valid.
    writer: ConnectionPool,
    /// Held by the writer.
    write_lock: Mutex<()>,
    /// The newest known version.
    newest: watch::Sender<u64>,
    /// Held by the task that polls for changes of other processes.
    poll_lock: Mutex<()>,
    intake: Intake,
    pub(crate) queue_signals: QueueSignals,
    /// Whether the last write failed.
    has_failed: AtomicBool,
}

impl Fleet {
    pub(crate) fn new(
        location: Location,
        database_kind: DatabaseKind,
        file: Option<DatabaseFile>,
        pool: ConnectionPool,
        writer: ConnectionPool,
    ) -> Arc<Self> {
        Arc::new(Self {
            location,
            database_kind,
            file,
            has_failed: AtomicBool::new(false),
            pool,
            writer,
            write_lock: Mutex::default(),
            newest: watch::Sender::new(0),
            poll_lock: Mutex::default(),
            intake: Intake::default(),
            queue_signals: QueueSignals::default(),
        })
    }

    pub(crate) async fn close(&self) {
        self.writer.close().await;
        self.pool.close().await;
    }

    fn database_error(&self, error: &sqlx::Error) -> FleetError {
        self.unavailable(database_message(error))
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> FleetError {
        FleetError::Unavailable(format!("{}: {why}", self.location))
    }

    pub(crate) fn commit(
        &self,
        writes: Vec<Write>,
        now: Moment,
        fence: Option<i64>,
    ) -> BoxFuture<'_, Result<Applied, FleetError>> {
        Box::pin(async move {
            let mut transaction = self.begin_fenced_write(fence).await?;
            match transaction.write_all(writes, now).await {
                Ok(objects) => Ok(Applied { objects, version: transaction.commit().await? }),
                Err(error) => {
                    transaction.abort(&error).await;
                    Err(error)
                }
            }
        })
    }
}
