//! Elects the server that runs the controllers.
//!
//! An SQLite database has one server, which locks a file. Several servers can use a PostgreSQL database: one of them has
//! a lease on the database's clock, and another one takes over when the lease is not renewed. A server that was paused
//! does not know that it lost its lease. Therefore the controllers write with a fence: the transaction of each write
//! checks the epoch of their lease.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::digest::Sha256Hex;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::connections::{ConnectionPool, LEASE_HOLDERS};
use crate::open::{Store, connect_to_server};
use crate::sql::{DatabaseKind, POSTGRES_NOW};

/// A lease that is not renewed for this long can be taken over.
const LEASE_DURATION: Duration = Duration::from_secs(10);

/// How often a leader renews its lease, and how often the other servers should try to become the leader.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// The result of an attempt to become the leader.
#[derive(Debug)]
pub enum Election {
    /// This server is the leader.
    Elected(LeaderLease),
    /// A server on this machine, with the same state directory, is the leader.
    Follower,
    /// A server on another machine, or with another state directory, is the leader.
    LeaderElsewhere,
}

/// The right to run the controllers. It ends when it is released, lost or dropped, and with the process.
#[derive(Debug)]
pub struct LeaderLease(Lease);

#[derive(Debug)]
enum Lease {
    /// The lock lasts as long as the file is open.
    FileLock { _file: File },
    /// A row of the database.
    Row { pool: ConnectionPool, epoch: i64 },
}

/// The row of the current or last leader.
struct LeaseRow {
    epoch: i64,
    host: String,
    process: i64,
    renewed_at: i64,
    is_expired: bool,
}

impl LeaseRow {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            epoch: row.try_get(0)?,
            host: row.try_get(1)?,
            process: row.try_get(2)?,
            renewed_at: row.try_get(3)?,
            is_expired: row.try_get(4)?,
        })
    }

    /// Whether a process of this host has ended.
    fn process_has_ended(&self) -> bool {
        !Path::new("/proc").join(self.process.to_string()).exists()
    }
}

impl Store {
    /// Becomes the leader if no other server is.
    pub async fn try_to_lead(&self) -> Result<Election, StoreError> {
        match self.database_kind() {
            DatabaseKind::Sqlite => {
                let locked = self.lock_file().map_err(|error| self.failure(error.to_string()))?;
                Ok(match locked {
                    Some(file) => Election::Elected(LeaderLease(Lease::FileLock { _file: file })),
                    None => Election::Follower,
                })
            }
            DatabaseKind::Postgres => {
                let host = self.host().map_err(|error| self.failure(error.to_string()))?;
                self.try_to_take_lease(&host).await.map_err(|error| self.error(&error))
            }
        }
    }

    async fn try_to_take_lease(&self, host: &str) -> Result<Election, sqlx::Error> {
        let read = format!(
            "SELECT epoch, host, process, renewed_at, renewed_at + $1 < {POSTGRES_NOW} \
             FROM leader_lease WHERE id = 1"
        );
        let duration = i64::try_from(LEASE_DURATION.as_millis()).unwrap_or(i64::MAX);
        let row = sqlx::query(sqlx::AssertSqlSafe(read)).bind(duration).fetch_one(&self.pool);
        let found = LeaseRow::read(&row.await?)?;
        let is_same_host = found.host == host;
        let has_ended = found.is_expired || (is_same_host && found.process_has_ended());
        match (has_ended, is_same_host) {
            (false, true) => return Ok(Election::Follower),
            (false, false) => return Ok(Election::LeaderElsewhere),
            (true, _) => {}
        }
        // Fenced writes lock the row: this waits for them. A leader that renewed its lease meanwhile keeps it.
        let take = format!(
            "UPDATE leader_lease SET epoch = epoch + 1, host = $1, process = $2, \
             renewed_at = {POSTGRES_NOW} WHERE id = (SELECT id FROM leader_lease WHERE id = 1 \
             AND epoch = $3 AND renewed_at = $4 FOR UPDATE)"
        );
        let taken = sqlx::query(sqlx::AssertSqlSafe(take))
            .bind(host)
            .bind(i64::from(std::process::id()))
            .bind(found.epoch)
            .bind(found.renewed_at)
            .execute(&self.pool)
            .await?;
        if taken.rows_affected() == 0 {
            // Another server was elected, or the leader is back: the next attempt finds out where it is.
            return Ok(Election::Follower);
        }
        // Connections of its own, so that a renewal never waits for the queries of this server.
        let pool = connect_to_server(&self.location, LEASE_HOLDERS)?;
        Ok(Election::Elected(LeaderLease(Lease::Row { pool, epoch: found.epoch + 1 })))
    }

    /// Whether a server leads. Without one, nobody has extended the leases that ended while the database was away.
    pub async fn has_leader(&self) -> Result<bool, StoreError> {
        match self.database_kind() {
            // Only the leader serves such a database.
            DatabaseKind::Sqlite => Ok(true),
            DatabaseKind::Postgres => {
                let read = format!(
                    "SELECT renewed_at + $1 >= {POSTGRES_NOW} FROM leader_lease WHERE id = 1"
                );
                let duration = i64::try_from(LEASE_DURATION.as_millis()).unwrap_or(i64::MAX);
                let row = sqlx::query(sqlx::AssertSqlSafe(read)).bind(duration);
                let row = row.fetch_one(&self.pool).await;
                row.and_then(|row| row.try_get(0)).map_err(|error| self.error(&error))
            }
        }
    }

    /// The same store for the controllers: its writes fail if the lease is lost.
    pub fn fenced_by(&self, lease: &LeaderLease) -> Self {
        match &lease.0 {
            Lease::FileLock { .. } => self.with_fence(None),
            Lease::Row { epoch, .. } => self.with_fence(Some(*epoch)),
        }
    }

    fn lock_file(&self) -> io::Result<Option<File>> {
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

    /// Identifies the place of the processes and files of runs: the boot of this machine, the process namespace and the
    /// state directory.
    fn host(&self) -> io::Result<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let processes = fs::read_link("/proc/self/ns/pid")?;
        let state = std::path::absolute(self.location.companion(""))?;
        let all = format!("{boot}\0{}\0{}", processes.display(), state.display());
        Ok(Sha256Hex::of(&all).prefix(16).to_owned())
    }
}

impl LeaderLease {
    /// Renews the lease, and returns when it is lost: another server is the leader, or the database did not answer for
    /// the duration of the lease.
    pub async fn renew_until_lost(&self) {
        let Lease::Row { pool, epoch } = &self.0 else { return std::future::pending().await };
        let renew = format!(
            "UPDATE leader_lease SET renewed_at = {POSTGRES_NOW} WHERE id = 1 AND epoch = $1"
        );
        let mut renewed = Instant::now();
        while renewed.elapsed() < LEASE_DURATION {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            let begun = Instant::now();
            let renewal = sqlx::query(sqlx::AssertSqlSafe(renew.clone())).bind(*epoch);
            let left = LEASE_DURATION.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, renewal.execute(pool)).await {
                Ok(Ok(done)) if done.rows_affected() == 0 => return,
                Ok(Ok(_)) => renewed = begun,
                // The next renewal may succeed.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Lets another server lead at once. If this fails, the lease expires.
    pub async fn release(self) {
        let Lease::Row { pool, epoch } = self.0 else { return };
        let release =
            sqlx::query("UPDATE leader_lease SET renewed_at = 0 WHERE id = 1 AND epoch = $1");
        let _ = tokio::time::timeout(RENEWAL_INTERVAL, release.bind(epoch).execute(&pool)).await;
    }
}
