//! A write transaction on a connection of a pool, which leaves the pool usable however it ends.
//!
//! SQLite ends a transaction by itself when the disk is full. sqlx's own transactions count their depth, which is then
//! wrong for ever, and the connection never writes again. Here a connection in an uncertain state is closed, and the
//! pool opens another one.

use std::ops::{Deref, DerefMut};

use sqlx::{Executor as _, Row as _};

use super::{Connection, ConnectionPool};

/// Why a write of the controllers fails.
pub(crate) const LEASE_LOST: &str = "this server is no longer the leader";

/// A connection in a write transaction. If it is dropped, it is closed, which rolls the transaction back.
#[derive(Debug)]
pub(crate) struct WriteConnection {
    connection: Connection,
    /// Whether a transaction is open, or may be.
    is_open: bool,
}

impl WriteConnection {
    /// Begins a transaction with this statement.
    pub(crate) async fn begin(
        pool: &ConnectionPool,
        statement: &'static str,
    ) -> Result<Self, sqlx::Error> {
        // Marked as open first: the caller may stop waiting while the database begins the transaction.
        let mut write = Self { connection: pool.acquire().await?, is_open: true };
        write.execute(statement).await?;
        Ok(write)
    }

    /// The same with a statement that may wait for as long as it takes.
    pub(crate) async fn begin_without_limit(
        pool: &ConnectionPool,
        statement: &'static str,
    ) -> Result<Self, sqlx::Error> {
        let mut write = Self { connection: pool.acquire().await?, is_open: true };
        write.connection.wait_without_limit();
        write.execute(statement).await?;
        Ok(write)
    }

    /// Whether the lease with this epoch is lost. If it is not, no other server becomes the leader before the
    /// transaction ends.
    pub(crate) async fn is_fenced(&mut self, fence: Option<i64>) -> Result<bool, sqlx::Error> {
        let Some(fence) = fence else { return Ok(false) };
        // This lock does not delay renewals.
        let epoch = sqlx::query("SELECT epoch FROM leader_lease WHERE id = 1 FOR KEY SHARE");
        let row = epoch.fetch_one(&mut self.connection).await?;
        Ok(row.try_get::<i64, _>(0)? != fence)
    }

    /// Makes all writes durable and visible. After an error none of them is.
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.execute("COMMIT").await?;
        self.is_open = false;
        Ok(())
    }

    /// Undoes all writes.
    pub(crate) async fn rollback(mut self) {
        self.is_open = self.execute("ROLLBACK").await.is_err();
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        self.connection.execute(sqlx::raw_sql(statement)).await.map(drop)
    }
}

impl Drop for WriteConnection {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for WriteConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for WriteConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
