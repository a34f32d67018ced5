//! The change log: reading it, waiting for new changes, deleting the oldest.

use std::time::Duration;

use bailiwick_fleet::ports::{Change, ChangeKind, FleetError};
use sqlx::Row as _;
use sqlx::any::AnyRow;
use tokio::time::{Instant, sleep, sleep_until};

use super::Fleet;
use super::statements::{limit, signed};

/// How often one waiting task polls for changes of other processes, for all of them.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How many changes one transaction deletes, so that other writers do not wait long.
const DELETE_BATCH_SIZE: i64 = 1_000;

impl Fleet {
    pub(crate) async fn changes(
        &self,
        after: u64,
        count: usize,
    ) -> Result<Vec<Change>, FleetError> {
        // The limit is part of the text: as a parameter it would make SQLite prepare the statement again.
        let statement = format!(
            "SELECT version, change, object FROM resource_changes WHERE version > $1 \
             ORDER BY version LIMIT {}",
            limit(count.max(1))
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(signed(after))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database_error(&error))?;
        let changes: Result<Vec<Change>, FleetError> = rows
            .iter()
            .map(|row| {
                read(row).map_err(|why| self.unavailable(format!("a change cannot be read: {why}")))
            })
            .collect();
        let mut changes = changes?;
        // Every version has a change: if the next one is missing, it was deleted.
        match changes.first() {
            Some(first) if first.version > after.saturating_add(1) => {
                Err(FleetError::Gone { oldest: first.version })
            }
            Some(_) | None => {
                changes.truncate(count);
                Ok(changes)
            }
        }
    }

    pub(crate) async fn forget_changes(
        &self,
        keep: u64,
        fence: Option<i64>,
    ) -> Result<u64, FleetError> {
        let mut deleted = 0;
        loop {
            let mut transaction = self.begin_fenced_write(fence).await?;
            let count = sqlx::query(
                "DELETE FROM resource_changes \
                 WHERE version <= (SELECT MAX(version) FROM resource_changes) - $1 \
                 AND version < (SELECT MIN(version) FROM resource_changes) + $2",
            )
            .bind(signed(keep.max(1)))
            .bind(DELETE_BATCH_SIZE)
            .execute(transaction.connection())
            .await
            .map_err(|error| self.database_error(&error))?
            .rows_affected();
            transaction.commit().await?;
            if count == 0 {
                return Ok(deleted);
            }
            deleted += count;
        }
    }

    /// Wakes the tasks that wait for this version.
    pub(super) fn announce_version(&self, version: u64) {
        self.newest.send_if_modified(|newest| {
            let newer = version > *newest;
            *newest = version.max(*newest);
            newer
        });
    }

    pub(crate) async fn wait_for_change(&self, after: u64, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis.min(u64::from(u32::MAX)));
        let mut newest = self.newest.subscribe();
        let change = newest.wait_for(|newest| *newest > after);
        tokio::select! {
            _ = change => {}
            () = self.poll_other_processes() => {}
            () = sleep_until(end) => {}
        }
    }

    /// Polls for changes of other processes without end, as soon as no other task does.
    async fn poll_other_processes(&self) {
        let _guard = self.poll_lock.lock().await;
        loop {
            // A failed read is retried at the next poll; waiting tasks have their own timeout.
            if let Ok(version) = self.version(&self.pool).await {
                self.announce_version(version);
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

fn read(row: &AnyRow) -> Result<Change, Box<dyn std::error::Error>> {
    let word: String = row.try_get(1)?;
    let kind = match word.as_str() {
        "ADDED" => ChangeKind::Added,
        "MODIFIED" => ChangeKind::Modified,
        "DELETED" => ChangeKind::Deleted,
        other => return Err(format!("`{other}` is not a kind of change").into()),
    };
    Ok(Change {
        version: row.try_get::<i64, _>(0)?.unsigned_abs(),
        kind,
        object: serde_json::from_str(&row.try_get::<String, _>(2)?)?,
    })
}
