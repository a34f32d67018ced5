//! Connections to a database, directly or through a transaction pooler.
//!
//! A transaction pooler such as PgBouncer may answer each transaction with another connection to the server. A named
//! statement of one transaction is then unknown in the next one, or belongs to another program. So every statement
//! runs in a transaction and without a name there.
//!
//! A connection whose machine or network disappeared looks like one whose statement takes long: TCP notices after a
//! quarter of an hour, or never if it only waits. So a server has a limited time to answer, and a connection that missed
//! it is closed.

mod write_connection;

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, Database, Either, Error, Execute, Executor, SqlStr};

pub(crate) use write_connection::{LEASE_LOST, WriteConnection};

/// How many connections to a server write. One writes at a time; one that is lost silently does not keep the next write
/// waiting.
pub(crate) const WRITERS: u32 = 2;

/// How many connections renew the lease of a leader: one may be lost silently here, too.
pub(crate) const LEASE_HOLDERS: u32 = 2;

type Step = Either<AnyQueryResult, AnyRow>;

/// How long a server may take for the next row. It ends waits for locks itself before that
/// (`DatabaseKind::begin_write`).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Connections that are opened when they are needed. A statement that is run on it is a transaction of its own.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPool {
    pool: AnyPool,
    path: Path,
}

/// What is between a program and its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Nothing that could fail silently.
    File,
    Network,
    TransactionPooler,
}

impl ConnectionPool {
    pub(crate) fn to_file(pool: AnyPool) -> Self {
        Self { pool, path: Path::File }
    }

    pub(crate) fn to_server(pool: AnyPool) -> Self {
        Self { pool, path: Path::Network }
    }

    pub(crate) fn behind_transaction_pooler(pool: AnyPool) -> Self {
        Self { pool, path: Path::TransactionPooler }
    }

    /// The connections as they are; only for what never runs behind a pooler.
    pub(crate) fn as_direct(&self) -> &AnyPool {
        &self.pool
    }

    pub(crate) fn is_behind_pooler(&self) -> bool {
        self.path == Path::TransactionPooler
    }

    /// A connection on which the caller begins a transaction.
    pub(crate) async fn acquire(&self) -> Result<Connection, Error> {
        let connection = self.pool.acquire().await?;
        Ok(Connection {
            connection,
            path: self.path,
            answer_timeout: Some(ANSWER_TIMEOUT),
            is_waiting: false,
        })
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Runs a statement as a transaction of its own, on a connection that is closed if it does not answer.
    async fn run<'q>(&self, query: impl Execute<'q, Any> + 'q) -> Result<Vec<Step>, Error> {
        if !self.is_behind_pooler() {
            return self.acquire().await?.fetch_many(query).try_collect().await;
        }
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
        if self.path == Path::File {
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
        if self.path == Path::File {
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

/// A connection of a pool. It is closed, not reused, if a server did not answer, or the caller did not wait for that.
#[derive(Debug)]
pub(crate) struct Connection {
    connection: PoolConnection<Any>,
    path: Path,
    /// How long a server may take for the next row.
    answer_timeout: Option<Duration>,
    is_waiting: bool,
}

impl Connection {
    pub(crate) fn close_on_drop(&mut self) {
        self.connection.close_on_drop();
    }

    /// Lets a statement wait for as long as it takes.
    pub(crate) fn wait_without_limit(&mut self) {
        self.answer_timeout = None;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_waiting && self.path != Path::File {
            self.connection.close_on_drop();
        }
    }
}

/// Waits for an answer of a server.
async fn answer<T>(
    answer: impl Future<Output = T>,
    limit: Option<Duration>,
    is_waiting: &mut bool,
) -> Result<T, Error> {
    *is_waiting = true;
    let answer = match limit {
        Some(limit) => tokio::time::timeout(limit, answer)
            .await
            .map_err(|_| Error::Io(std::io::ErrorKind::TimedOut.into()))?,
        None => answer.await,
    };
    *is_waiting = false;
    Ok(answer)
}

impl<'c> Executor<'c> for &'c mut Connection {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let Connection { connection, path, answer_timeout, is_waiting } = self;
        let limit = *answer_timeout;
        let steps = match path {
            Path::File => return connection.fetch_many(query),
            Path::Network => connection.fetch_many(query),
            Path::TransactionPooler => connection.fetch_many(Unnamed(query)),
        };
        let next = move |(mut steps, is_waiting): (BoxStream<'e, _>, &'e mut bool)| async move {
            let step = answer(steps.next(), limit, is_waiting).await?.transpose()?;
            Ok(step.map(|step| (step, (steps, is_waiting))))
        };
        stream::try_unfold((steps, is_waiting), next).boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let Connection { connection, path, answer_timeout, is_waiting } = self;
        let row = match path {
            Path::File => return connection.fetch_optional(query),
            Path::Network => connection.fetch_optional(query),
            Path::TransactionPooler => connection.fetch_optional(Unnamed(query)),
        };
        let limit = *answer_timeout;
        Box::pin(async move { answer(row, limit, is_waiting).await? })
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
