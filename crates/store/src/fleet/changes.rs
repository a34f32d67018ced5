//! What changed, in order; waiting for more; forgetting the oldest.

use std::time::Duration;

use bailiwick_fleet::ports::{Change, ChangeKind, FleetError};
use sqlx::Row as _;
use sqlx::any::AnyRow;
use tokio::time::{Instant, sleep, sleep_until};

use super::Fleet;
use super::values::{limit, signed};

/// How often other processes are looked at; by one of those who wait, for all of them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many changes are forgotten in one transaction, so that nobody waits long.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

impl Fleet {
    pub(super) async fn changes(
        &self,
        after: u64,
        count: usize,
    ) -> Result<Vec<Change>, FleetError> {
        // The limit is part of the text: one that is given anew lets SQLite prepare the statement anew.
        let statement = format!(
            "SELECT version, change, object FROM resource_changes WHERE version > $1 \
             ORDER BY version LIMIT {}",
            limit(count.max(1))
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(signed(after))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.failed(&error))?;
        let changes: Result<Vec<Change>, FleetError> = rows
            .iter()
            .map(|row| {
                read(row).map_err(|why| self.broken(format!("a change cannot be read: {why}")))
            })
            .collect();
        let mut changes = changes?;
        // Every version has its change: where the next one is missing, it was forgotten.
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

    pub(super) async fn forget_changes(&self, keep: u64) -> Result<u64, FleetError> {
        let mut forgotten = 0;
        loop {
            let mut draft = self.draft().await?;
            let done = sqlx::query(
                "DELETE FROM resource_changes \
                 WHERE version <= (SELECT MAX(version) FROM resource_changes) - $1 \
                 AND version < (SELECT MIN(version) FROM resource_changes) + $2",
            )
            .bind(signed(keep.max(1)))
            .bind(FORGOTTEN_AT_ONCE)
            .execute(draft.connection())
            .await
            .map_err(|error| self.failed(&error))?
            .rows_affected();
            draft.keep().await?;
            if done == 0 {
                return Ok(forgotten);
            }
            forgotten += done;
        }
    }

    /// Tells those who wait that there is this version.
    pub(super) fn saw(&self, version: u64) {
        self.newest.send_if_modified(|newest| {
            let newer = version > *newest;
            *newest = version.max(*newest);
            newer
        });
    }

    pub(super) async fn wait_for_change(&self, after: u64, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis.min(u64::from(u32::MAX)));
        let mut newest = self.newest.subscribe();
        let change = newest.wait_for(|newest| *newest > after);
        tokio::select! {
            _ = change => {}
            () = self.look_out() => {}
            () = sleep_until(end) => {}
        }
    }

    /// Looks for changes of other processes, for ever, when it is our turn to.
    async fn look_out(&self) {
        let _lookout = self.lookout.lock().await;
        loop {
            // What cannot be read now may be at the next look; whoever waits ends by its own time.
            if let Ok(mut connection) = self.pool.acquire().await
                && let Ok(version) = self.version(&mut connection).await
            {
                self.saw(version);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn read(row: &AnyRow) -> Result<Change, Box<dyn std::error::Error>> {
    let word: String = row.try_get(1)?;
    let kind = match word.as_str() {
        "ADDED" => ChangeKind::Added,
        "MODIFIED" => ChangeKind::Modified,
        "DELETED" => ChangeKind::Deleted,
        other => return Err(format!("`{other}` is no change").into()),
    };
    Ok(Change {
        version: row.try_get::<i64, _>(0)?.unsigned_abs(),
        kind,
        object: serde_json::from_str(&row.try_get::<String, _>(2)?)?,
    })
}
