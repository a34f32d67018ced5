//! Connections to a database, directly or through a transaction pooler.
//!
//! A transaction pooler such as PgBouncer may answer each transaction with another connection to the server. A named
//! statement of one transaction is then unknown in the next one, or belongs to another program. So every statement
//! runs in a transaction and without a name there.

mod write_connection;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, Database, Either, Error, Execute, Executor, SqlStr};

pub(crate) use write_connection::{LEASE_LOST, WriteConnection};

type Step = Either<AnyQueryResult, AnyRow>;

/// Connections that are opened when they are needed. A statement that is run on it is a transaction of its own.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPool {
    pool: AnyPool,
    is_behind_pooler: bool,
}

impl ConnectionPool {
    pub(crate) fn direct(pool: AnyPool) -> Self {
        Self { pool, is_behind_pooler: false }
    }

    pub(crate) fn behind_transaction_pooler(pool: AnyPool) -> Self {
        Self { pool, is_behind_pooler: true }
    }

    /// The connections as they are; only for what never runs behind a pooler.
    pub(crate) fn as_direct(&self) -> &AnyPool {
        &self.pool
    }

    pub(crate) fn is_behind_pooler(&self) -> bool {
        self.is_behind_pooler
    }

    /// A connection on which the caller begins a transaction.
    pub(crate) async fn acquire(&self) -> Result<Connection, Error> {
        let connection = self.pool.acquire().await?;
        Ok(Connection { connection, is_behind_pooler: self.is_behind_pooler })
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    async fn run<'q>(&self, query: impl Execute<'q, Any> + 'q) -> Result<Vec<Step>, Error> {
        let mut transaction = WriteConnection::begin(self, "BEGIN").await?;
        let steps = transaction.fetch_many(query).try_collect().await;
        match steps {
            Ok(steps) => transaction.commit().await.map(|()| steps),
            Err(error) => {
                transaction.rollback().await;
                Err(error)
            }
        }
    }
}

impl<'c> Executor<'c> for &'c ConnectionPool {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        if !self.is_behind_pooler {
            return self.pool.fetch_many(query);
        }
        let steps = stream::once(self.run(query));
        steps.map_ok(|steps| stream::iter(steps.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        if !self.is_behind_pooler {
            return self.pool.fetch_optional(query);
        }
        Box::pin(async move {
            let steps = self.run(query).await?;
            Ok(steps.into_iter().find_map(Either::right))
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, Error>>
    where
        'c: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }
}

/// A connection of a pool.
#[derive(Debug)]
pub(crate) struct Connection {
    connection: PoolConnection<Any>,
    is_behind_pooler: bool,
}

impl Connection {
    pub(crate) fn close_on_drop(&mut self) {
        self.connection.close_on_drop();
    }
}

impl<'c> Executor<'c> for &'c mut Connection {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        match self.is_behind_pooler {
            true => self.connection.fetch_many(Unnamed(query)),
            false => self.connection.fetch_many(query),
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        match self.is_behind_pooler {
            true => self.connection.fetch_optional(Unnamed(query)),
            false => self.connection.fetch_optional(query),
        }
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, Error>>
    where
        'c: 'e,
    {
        self.connection.prepare_with(sql, parameters)
    }
}

/// A query whose statement has no name on the server.
struct Unnamed<E>(E);

impl<'q, E: Execute<'q, Any>> Execute<'q, Any> for Unnamed<E> {
    fn sql(self) -> SqlStr {
        self.0.sql()
    }

    fn statement(&self) -> Option<&<Any as Database>::Statement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<<Any as Database>::Arguments>, BoxDynError> {
        self.0.take_arguments()
    }

    fn persistent(&self) -> bool {
        false
    }
}
