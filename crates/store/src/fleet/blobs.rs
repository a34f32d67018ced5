//! Bytes, stored under their digest.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::FleetError;
use sqlx::Row as _;

use super::Fleet;
use super::statements::{batches, placeholders};
use super::terms::DIGEST;
use super::transaction::WriteTransaction;

impl WriteTransaction<'_> {
    /// Stores bytes under their digest. Fails if other bytes are stored under the same digest.
    pub(super) async fn store_blob(
        &mut self,
        digest: &str,
        bytes: &[u8],
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let statement = "INSERT INTO blobs (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let done =
            sqlx::query(statement).bind(digest).bind(bytes.to_vec()).execute(self.connection());
        let done = done.await.map_err(|error| fleet.database_error(&error))?;
        if done.rows_affected() == 0 && self.read_blob(digest).await?.as_deref() != Some(bytes) {
            return Err(digest_conflict(digest));
        }
        Ok(())
    }

    /// Deletes the bytes that objects of this transaction named and that no object names any more. Another writer
    /// stores the same bytes either before this transaction, with an object that is seen here, or after it.
    pub(super) async fn delete_unreferenced_blobs(&mut self) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for digest in self.take_dereferenced() {
            let statement = "DELETE FROM blobs WHERE digest = $1 AND NOT EXISTS \
                             (SELECT 1 FROM resource_terms WHERE term = $2 AND value = $3)";
            let query = sqlx::query(statement).bind(&digest).bind(DIGEST).bind(&digest);
            let done = query.execute(self.connection()).await;
            done.map_err(|error| fleet.database_error(&error))?;
        }
        Ok(())
    }

    pub(super) async fn read_blob(&mut self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let fleet = self.fleet;
        let row = sqlx::query(SELECT_BYTES).bind(digest).fetch_optional(self.connection()).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| fleet.database_error(&error))
    }
}

const SELECT_BYTES: &str = "SELECT bytes FROM blobs WHERE digest = $1";

pub(super) fn digest_conflict(digest: &str) -> FleetError {
    FleetError::Unavailable(format!("other bytes are already stored under the digest {digest}"))
}

impl Fleet {
    pub(crate) async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let row = sqlx::query(SELECT_BYTES).bind(digest).fetch_optional(&self.pool).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| self.database_error(&error))
    }

    /// The stored bytes of these digests.
    pub(crate) async fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, FleetError> {
        let digests: Vec<&String> = digests.iter().collect();
        let mut found = BTreeMap::new();
        for chunk in batches(&digests) {
            let list = placeholders(1, chunk.len());
            let statement = format!("SELECT digest, bytes FROM blobs WHERE digest IN ({list})");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for digest in chunk {
                query = query.bind(digest.as_str());
            }
            let rows =
                query.fetch_all(&self.pool).await.map_err(|error| self.database_error(&error))?;
            for row in rows {
                let read = || Ok((row.try_get(0)?, row.try_get(1)?));
                let (digest, bytes) =
                    read().map_err(|error: sqlx::Error| self.database_error(&error))?;
                found.insert(digest, bytes);
            }
        }
        Ok(found)
    }
}
