//! Workers, the tokens with which they join, and their credentials. Only digests of both are stored.

use bailiwick_fleet::workers::{
    ATTEMPT_LABEL, NewWorker, NewWorkerToken, RegisteredWorker, WorkerCapabilities, WorkerRecord,
    WorkerState,
};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_resources::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::signed;
use crate::open::Store;
use crate::sql::{escaped, unescaped};

/// How long a credential is valid that was extended, in milliseconds: long enough to renew it.
const EXTENDED_MILLIS: u64 = 600_000;

const COLUMNS: &str = "name, pool, labels, capabilities, version, state, joined_at, seen_at";

impl Store {
    /// Stores a token with which one worker can join, and deletes expired ones.
    pub async fn add_worker_token(&self, token: &NewWorkerToken) -> Result<(), StoreError> {
        let now = self.database_kind().now();
        let mut write = self.begin_queue_write().await?;
        let old = format!("DELETE FROM worker_tokens WHERE expires_at < {now}");
        let done = sqlx::query(sqlx::AssertSqlSafe(old)).execute(&mut *write).await;
        done.map_err(|error| self.error(&error))?;
        let add = format!(
            "INSERT INTO worker_tokens (digest, pool, created_by, expires_at, used_by, agent) \
             VALUES ($1, $2, $3, {now} + $4, '', $5)"
        );
        let add = sqlx::query(sqlx::AssertSqlSafe(add))
            .bind(&token.digest)
            .bind(escaped(&token.pool))
            .bind(escaped(&token.created_by))
            .bind(signed(token.valid_millis))
            .bind(escaped(token.agent.as_deref().unwrap_or_default()))
            .execute(&mut *write);
        add.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// Uses a token up and adds its worker; whether the token was valid for that pool. The worker of a token for one
    /// attempt can run no other.
    pub async fn join_worker(
        &self,
        token: &str,
        worker: &NewWorker,
        valid_millis: u64,
    ) -> Result<bool, StoreError> {
        let now = self.database_kind().now();
        let mut write = self.begin_queue_write().await?;
        let take = format!(
            "UPDATE worker_tokens SET used_by = $1 \
             WHERE digest = $2 AND pool = $3 AND used_by = '' AND expires_at > {now}"
        );
        let taken = sqlx::query(sqlx::AssertSqlSafe(take))
            .bind(escaped(&worker.name))
            .bind(token)
            .bind(escaped(&worker.pool))
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        if taken.rows_affected() == 0 {
            write.rollback().await;
            return Ok(false);
        }
        let of = sqlx::query("SELECT agent FROM worker_tokens WHERE digest = $1").bind(token);
        let of = of.fetch_one(&mut *write).await.and_then(|row| row.try_get::<String, _>(0));
        let of = unescaped(of.map_err(|error| self.error(&error))?);
        let mut labels = worker.labels.clone();
        if !of.is_empty() {
            labels.insert(ATTEMPT_LABEL.to_owned(), of);
        }
        let add = format!(
            "INSERT INTO workers ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, {now}, {now})"
        );
        sqlx::query(sqlx::AssertSqlSafe(add))
            .bind(escaped(&worker.name))
            .bind(escaped(&worker.pool))
            .bind(escaped(&self.to_json(&labels)?))
            .bind(escaped(&self.to_json(&worker.capabilities)?))
            .bind(escaped(&worker.version))
            .bind(WorkerState::Active.as_str())
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(&error))?;
        self.add_credential(&mut write, &worker.name, &worker.credential, valid_millis).await?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(true)
    }

    async fn add_credential(
        &self,
        write: &mut crate::connections::WriteConnection,
        worker: &str,
        digest: &str,
        valid_millis: u64,
    ) -> Result<(), StoreError> {
        let now = self.database_kind().now();
        let add = format!(
            "INSERT INTO worker_credentials (digest, worker, expires_at) VALUES ($1, $2, {now} + $3)"
        );
        let add = sqlx::query(sqlx::AssertSqlSafe(add))
            .bind(digest)
            .bind(escaped(worker))
            .bind(signed(valid_millis))
            .execute(&mut **write);
        add.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Adds a credential to a worker, and deletes all others but the one that it uses: the answer can be lost.
    pub async fn renew_worker(
        &self,
        worker: &str,
        used: &str,
        fresh: &str,
        valid_millis: u64,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_queue_write().await?;
        let others = "DELETE FROM worker_credentials WHERE worker = $1 AND digest <> $2";
        let others = sqlx::query(others).bind(escaped(worker)).bind(used).execute(&mut *write);
        others.await.map_err(|error| self.error(&error))?;
        self.add_credential(&mut write, worker, fresh, valid_millis).await?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// Extends the credentials of workers that have claimed something, as far as they were valid when their worker was
    /// last heard of.
    pub(super) async fn extend_credentials(
        &self,
        write: &mut crate::connections::WriteConnection,
    ) -> Result<(), StoreError> {
        let now = self.database_kind().now();
        let extend = format!(
            "UPDATE worker_credentials SET expires_at = {now} + $1 WHERE expires_at < {now} + $2 \
             AND EXISTS (SELECT 1 FROM workers w JOIN worker_attempts a ON a.worker = w.name \
              WHERE w.name = worker_credentials.worker AND a.state = 'claimed' \
              AND w.seen_at < worker_credentials.expires_at)"
        );
        let extend = sqlx::query(sqlx::AssertSqlSafe(extend))
            .bind(signed(EXTENDED_MILLIS))
            .bind(signed(EXTENDED_MILLIS))
            .execute(&mut **write);
        extend.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Stores what the machine of a worker offers now.
    pub async fn describe_worker(
        &self,
        worker: &str,
        capabilities: &WorkerCapabilities,
        version: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_queue_write().await?;
        let set = "UPDATE workers SET capabilities = $1, version = $2 WHERE name = $3";
        let set = sqlx::query(set)
            .bind(escaped(&self.to_json(capabilities)?))
            .bind(escaped(version))
            .bind(escaped(worker))
            .execute(&mut *write);
        set.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))
    }

    /// The worker with this credential, if it is valid. It counts as seen.
    pub async fn worker_with_credential(
        &self,
        digest: &str,
        lease_millis: u64,
    ) -> Result<Option<WorkerRecord>, StoreError> {
        let now = self.database_kind().now();
        let find = format!(
            "SELECT w.name, CAST(CASE WHEN w.seen_at + $1 < {now} THEN 1 ELSE 0 END AS BIGINT) \
             FROM worker_credentials c JOIN workers w ON w.name = c.worker \
             WHERE c.digest = $2 AND c.expires_at > {now}"
        );
        let found =
            sqlx::query(sqlx::AssertSqlSafe(find)).bind(signed(lease_millis / 6)).bind(digest);
        let found = found.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        let Some(found) = found else { return Ok(None) };
        let read = || Ok((found.try_get(0)?, found.try_get::<i64, _>(1)? != 0));
        let (name, is_old): (String, bool) =
            read().map_err(|error: sqlx::Error| self.error(&error))?;
        // Not every request writes.
        if is_old {
            let seen = format!("UPDATE workers SET seen_at = {now} WHERE name = $1");
            let mut write = self.begin_queue_write().await?;
            let seen = sqlx::query(sqlx::AssertSqlSafe(seen)).bind(&name).execute(&mut *write);
            seen.await.map_err(|error| self.error(&error))?;
            write.commit().await.map_err(|error| self.error(&error))?;
        }
        let own = format!("{} WHERE name = $2", self.select_workers());
        let own = sqlx::query(sqlx::AssertSqlSafe(own)).bind(signed(lease_millis)).bind(&name);
        let own = own.fetch_optional(&self.pool).await.map_err(|error| self.error(&error))?;
        own.map(|row| self.worker(&row)).transpose()
    }

    /// How many leases of a worker have not expired.
    pub async fn valid_leases(&self, worker: &WorkerRecord) -> Result<u64, StoreError> {
        let count = format!(
            "SELECT COUNT(*) FROM worker_attempts WHERE pool = $1 AND state = 'claimed' \
             AND worker = $2 AND lease_until >= {}",
            self.database_kind().now()
        );
        let count = sqlx::query(sqlx::AssertSqlSafe(count))
            .bind(escaped(&worker.pool))
            .bind(escaped(&worker.name));
        let row = count.fetch_one(&self.pool).await;
        let count = row.and_then(|row| row.try_get::<i64, _>(0));
        count.map(i64::unsigned_abs).map_err(|error| self.error(&error))
    }

    /// Selects workers as `worker` reads them. The first parameter is the time of a lease.
    fn select_workers(&self) -> String {
        let now = self.database_kind().now();
        format!(
            "SELECT {COLUMNS}, CAST(CASE WHEN seen_at + $1 > {now} THEN 1 ELSE 0 END AS BIGINT), \
             (SELECT COUNT(*) FROM worker_attempts a WHERE a.worker = workers.name \
              AND a.state = 'claimed'), CAST({now} - seen_at AS BIGINT) FROM workers"
        )
    }

    /// All workers, by name. One that was not seen for the time of a lease is absent.
    pub async fn workers(&self, lease_millis: u64) -> Result<Vec<WorkerRecord>, StoreError> {
        let all = self.registered_workers(lease_millis).await?;
        Ok(all.into_iter().map(|registered| registered.worker).collect())
    }

    /// The same, with how long each has been silent.
    pub async fn registered_workers(
        &self,
        lease_millis: u64,
    ) -> Result<Vec<RegisteredWorker>, StoreError> {
        let all = format!("{} ORDER BY name", self.select_workers());
        let rows = sqlx::query(sqlx::AssertSqlSafe(all)).bind(signed(lease_millis));
        let rows = rows.fetch_all(&self.pool).await.map_err(|error| self.error(&error))?;
        let registered = |row: &AnyRow| -> Result<RegisteredWorker, StoreError> {
            let silent: i64 = row.try_get(10).map_err(|error| self.error(&error))?;
            // The clock of the database can be set back.
            let silent_millis = u64::try_from(silent).unwrap_or_default();
            Ok(RegisteredWorker { worker: self.worker(row)?, silent_millis })
        };
        rows.iter().map(registered).collect()
    }

    /// Sets whether a worker takes attempts; whether there is such a worker.
    pub async fn set_worker_state(
        &self,
        name: &str,
        state: WorkerState,
    ) -> Result<bool, StoreError> {
        let mut write = self.begin_queue_write().await?;
        let set = sqlx::query("UPDATE workers SET state = $1 WHERE name = $2")
            .bind(state.as_str())
            .bind(escaped(name))
            .execute(&mut *write);
        let done = set.await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes a worker with its credentials, so that it is refused from now on; whether there was one.
    pub async fn delete_worker(&self, name: &str) -> Result<bool, StoreError> {
        let mut write = self.begin_queue_write().await?;
        let forget = sqlx::query("DELETE FROM worker_credentials WHERE worker = $1");
        let forget = forget.bind(escaped(name)).execute(&mut *write);
        forget.await.map_err(|error| self.error(&error))?;
        let delete = sqlx::query("DELETE FROM workers WHERE name = $1").bind(escaped(name));
        let done = delete.execute(&mut *write).await.map_err(|error| self.error(&error))?;
        write.commit().await.map_err(|error| self.error(&error))?;
        Ok(done.rows_affected() > 0)
    }

    fn worker(&self, row: &AnyRow) -> Result<WorkerRecord, StoreError> {
        let text = |column: usize| row.try_get::<String, _>(column).map(unescaped);
        let number = |column: usize| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
        let read = || -> Result<_, sqlx::Error> {
            Ok((text(0)?, text(1)?, text(2)?, text(3)?, text(4)?, text(5)?, number(6)?, number(7)?))
        };
        let (name, pool, labels, capabilities, version, state, joined, seen) =
            read().map_err(|error| self.error(&error))?;
        let counted = || Ok((number(8)?, number(9)?));
        let (is_present, running) = counted().map_err(|error: sqlx::Error| self.error(&error))?;
        let known = WorkerState::ALL.into_iter().find(|known| known.as_str() == state);
        Ok(WorkerRecord {
            labels: self.parse_json(&labels)?,
            capabilities: self.parse_json(&capabilities)?,
            // A state of a newer server: it takes nothing.
            state: known.unwrap_or(WorkerState::Cordoned),
            joined_at: Moment::from_millis(joined),
            seen_at: Moment::from_millis(seen),
            is_present: is_present != 0,
            name,
            pool,
            version,
            running,
        })
    }
}
