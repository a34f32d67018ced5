//! Whether the database can be written to: a small real write, and a larger one after a write has failed.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::FleetError;

use super::Fleet;
use crate::database_file::{DatabaseFile, FileChanged};
use crate::sql::now;

/// What is written after a failure: a disk with room for less is still full.
const LARGE_PROBE_BYTES: usize = 1 << 20;

/// The digest under which it is written. No content has it, and no object names it.
const PROBE: &str = "write-check";

impl Fleet {
    /// Fails if the file of the database is not in its place.
    pub(super) fn check_file(&self) -> Result<(), FleetError> {
        self.file_in_place().map_err(|changed| {
            self.has_failed.store(true, Ordering::Relaxed);
            self.unavailable(changed)
        })
    }

    pub(crate) fn file_in_place(&self) -> Result<(), FileChanged> {
        self.file.as_ref().map_or(Ok(()), DatabaseFile::check)
    }

    /// The error of a failed write.
    pub(super) fn write_failed(&self, error: &sqlx::Error) -> FleetError {
        self.has_failed.store(true, Ordering::Relaxed);
        self.database_error(error)
    }

    /// Writes something that nobody reads.
    pub(crate) async fn check_writable(&self, fence: Option<i64>) -> Result<(), FleetError> {
        if self.has_failed.load(Ordering::Relaxed) {
            self.write_probe(vec![1; LARGE_PROBE_BYTES], fence).await?;
        }
        // Bytes that differ each time: SQLite does not write what is already there.
        self.write_probe(now().to_le_bytes().to_vec(), fence).await
    }

    async fn write_probe(&self, bytes: Vec<u8>, fence: Option<i64>) -> Result<(), FleetError> {
        let mut transaction = self.begin_fenced_write(fence).await?;
        let write = "INSERT INTO blobs (digest, bytes) VALUES ($1, $2) \
                     ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes";
        let written = sqlx::query(write).bind(PROBE).bind(bytes);
        match written.execute(transaction.connection()).await {
            Ok(_) => transaction.commit().await.map(drop),
            Err(error) => {
                let error = self.write_failed(&error);
                transaction.abort(&error).await;
                Err(error)
            }
        }
    }
}
