//! What stands beside the resources: bytes, tokens, the audit log.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::{AuditEntry, FleetError, TokenRecord, TokenScope};
use bailiwick_resources::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::draft::Draft;
use super::terms::DIGEST;
use super::values::{limit, places, portions, signed};

impl Draft<'_> {
    /// Keeps bytes under their digest. Those that are there stay: others under the same digest are
    /// not what they are said to be.
    pub(super) async fn keep_blob(&mut self, digest: &str, bytes: &[u8]) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let statement = "INSERT INTO blobs (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let done =
            sqlx::query(statement).bind(digest).bind(bytes.to_vec()).execute(self.connection());
        let done = done.await.map_err(|error| fleet.failed(&error))?;
        if done.rows_affected() == 0 && self.kept_bytes(digest).await?.as_deref() != Some(bytes) {
            return Err(other_bytes(digest));
        }
        Ok(())
    }

    /// Drops the bytes that were named by objects of this transaction and that none names any more. Whoever
    /// keeps the same bytes does so before this transaction or after it: with an object that names them, which
    /// is seen here, or anew.
    pub(super) async fn drop_unnamed(&mut self) -> Result<(), FleetError> {
        let fleet = self.fleet;
        for digest in self.take_let_go() {
            let statement = "DELETE FROM blobs WHERE digest = $1 AND NOT EXISTS \
                             (SELECT 1 FROM resource_terms WHERE term = $2 AND value = $3)";
            let query = sqlx::query(statement).bind(&digest).bind(DIGEST).bind(&digest);
            let done = query.execute(self.connection()).await;
            done.map_err(|error| fleet.failed(&error))?;
        }
        Ok(())
    }

    /// Keeps a token, or what changed of it.
    pub(super) async fn put_token(&mut self, token: &TokenRecord) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let moment = |moment: Option<Moment>| moment.map(|moment| signed(moment.millis()));
        sqlx::query(
            "INSERT INTO tokens (id, actor, scope, digest, created_at, expires_at, revoked_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET \
             actor = excluded.actor, scope = excluded.scope, digest = excluded.digest, \
             created_at = excluded.created_at, expires_at = excluded.expires_at, \
             revoked_at = excluded.revoked_at",
        )
        .bind(&token.id)
        .bind(&token.actor)
        .bind(fleet.json(&token.scope)?)
        .bind(&token.digest)
        .bind(signed(token.created_at.millis()))
        .bind(moment(token.expires_at))
        .bind(moment(token.revoked_at))
        .execute(self.connection())
        .await
        .map_err(|error| fleet.failed(&error))?;
        Ok(())
    }

    /// The bytes under a digest.
    pub(super) async fn kept_bytes(&mut self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let fleet = self.fleet;
        let row = sqlx::query(BYTES).bind(digest).fetch_optional(self.connection()).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| fleet.failed(&error))
    }
}

const BYTES: &str = "SELECT bytes FROM blobs WHERE digest = $1";

/// Why bytes are not kept.
pub(super) fn other_bytes(digest: &str) -> FleetError {
    FleetError::Unavailable(format!(
        "other bytes are kept under the digest {digest}; what is there stays"
    ))
}

impl Fleet {
    /// The bytes under a digest.
    pub(super) async fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, FleetError> {
        let row = sqlx::query(BYTES).bind(digest).fetch_optional(&self.pool).await;
        row.and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| self.failed(&error))
    }

    /// The bytes under each of these digests that has some.
    pub(super) async fn blobs(
        &self,
        digests: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, FleetError> {
        let digests: Vec<&String> = digests.iter().collect();
        let mut found = BTreeMap::new();
        for some in portions(&digests) {
            let places = places(1, some.len());
            let statement = format!("SELECT digest, bytes FROM blobs WHERE digest IN ({places})");
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for digest in some {
                query = query.bind(digest.as_str());
            }
            let rows = query.fetch_all(&self.pool).await.map_err(|error| self.failed(&error))?;
            for row in rows {
                let read = || Ok((row.try_get(0)?, row.try_get(1)?));
                let (digest, bytes) = read().map_err(|error: sqlx::Error| self.failed(&error))?;
                found.insert(digest, bytes);
            }
        }
        Ok(found)
    }

    pub(super) async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        let statement = "SELECT id, actor, scope, digest, created_at, expires_at, revoked_at \
                         FROM tokens ORDER BY id";
        let rows = sqlx::query(statement).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        rows.iter().map(|row| self.token_of(row)).collect()
    }

    pub(super) async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        let statement = "SELECT id, actor, scope, digest, created_at, expires_at, revoked_at \
                         FROM tokens WHERE digest = $1 ORDER BY id LIMIT 1";
        let row = sqlx::query(statement).bind(digest).fetch_optional(&self.pool).await;
        row.map_err(|error| self.failed(&error))?.map(|row| self.token_of(&row)).transpose()
    }

    fn token_of(&self, row: &AnyRow) -> Result<TokenRecord, FleetError> {
        let read = || -> Result<TokenRecord, Box<dyn std::error::Error>> {
            let moment = |place: usize| -> Result<Option<Moment>, sqlx::Error> {
                let millis: Option<i64> = row.try_get(place)?;
                Ok(millis.map(|millis| Moment::from_millis(millis.unsigned_abs())))
            };
            let scope: TokenScope = serde_json::from_str(&row.try_get::<String, _>(2)?)?;
            Ok(TokenRecord {
                id: row.try_get(0)?,
                actor: row.try_get(1)?,
                scope,
                digest: row.try_get(3)?,
                created_at: moment(4)?.unwrap_or_default(),
                expires_at: moment(5)?,
                revoked_at: moment(6)?,
            })
        };
        read().map_err(|error| self.broken(format!("a token cannot be read: {error}")))
    }

    pub(super) async fn forget_audit(
        &self,
        before: Moment,
        most: usize,
    ) -> Result<u64, FleetError> {
        let oldest = "SELECT number, at FROM audit ORDER BY number LIMIT $1";
        let count = limit(most).saturating_add(1);
        let mut draft = self.draft().await?;
        let rows = sqlx::query(oldest).bind(count).fetch_all(draft.connection()).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let mut last = None;
        // The one behind those that go: without it, the next number would be given a second time.
        for row in rows.iter().take(rows.len().saturating_sub(1)) {
            let read = || Ok((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
            let (number, at) = read().map_err(|error: sqlx::Error| self.failed(&error))?;
            if at >= signed(before.millis()) {
                break;
            }
            last = Some(number);
        }
        let Some(last) = last else {
            draft.drop_all().await;
            return Ok(0);
        };
        let statement = "DELETE FROM audit WHERE number <= $1";
        let done = sqlx::query(statement).bind(last).execute(draft.connection()).await;
        let done = done.map_err(|error| self.failed(&error))?.rows_affected();
        draft.keep().await?;
        Ok(done)
    }

    pub(super) async fn audit(
        &self,
        after: u64,
        count: usize,
    ) -> Result<Vec<(u64, AuditEntry)>, FleetError> {
        let statement = "SELECT number, at, actor, event, subject, correlation, detail FROM audit \
                         WHERE number > $1 ORDER BY number LIMIT $2";
        let rows =
            sqlx::query(statement).bind(signed(after)).bind(limit(count)).fetch_all(&self.pool);
        let rows = rows.await.map_err(|error| self.failed(&error))?;
        let read = |row: &AnyRow| -> Result<(u64, AuditEntry), Box<dyn std::error::Error>> {
            let entry = AuditEntry {
                at: Moment::from_millis(row.try_get::<i64, _>(1)?.unsigned_abs()),
                actor: row.try_get(2)?,
                event: row.try_get(3)?,
                subject: row.try_get(4)?,
                correlation: serde_json::from_str(&row.try_get::<String, _>(5)?)?,
                detail: serde_json::from_str(&row.try_get::<String, _>(6)?)?,
            };
            Ok((row.try_get::<i64, _>(0)?.unsigned_abs(), entry))
        };
        let line = |row| {
            read(row).map_err(|error| {
                self.broken(format!("a line of the audit log cannot be read: {error}"))
            })
        };
        rows.iter().map(line).collect()
    }
}
