//! What stands beside the resources: bytes, tokens, the audit log.

use bailiwick_control::ports::fleet::{AuditEntry, FleetError, TokenRecord, TokenScope};
use bailiwick_model::fleet::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::draft::Draft;
use super::values::{limit, signed};

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

    pub(super) async fn put_token(&self, token: TokenRecord) -> Result<(), FleetError> {
        let mut draft = self.draft().await?;
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
        .bind(self.json(&token.scope)?)
        .bind(&token.digest)
        .bind(signed(token.created_at.millis()))
        .bind(moment(token.expires_at))
        .bind(moment(token.revoked_at))
        .execute(draft.connection())
        .await
        .map_err(|error| self.failed(&error))?;
        draft.keep().await.map(drop)
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
