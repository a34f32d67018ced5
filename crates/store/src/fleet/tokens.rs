//! API tokens.

use bailiwick_fleet::ports::{FleetError, SESSION_ID_PREFIX, TokenRecord, TokenScope};
use bailiwick_resources::Moment;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::Fleet;
use super::statements::{limit, signed};
use super::transaction::WriteTransaction;
use crate::sql::{escaped, unescaped};

impl WriteTransaction<'_> {
    /// Inserts or replaces a token.
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
        .bind(escaped(&token.actor))
        .bind(fleet.json(&token.scope)?)
        .bind(&token.digest)
        .bind(signed(token.created_at.millis()))
        .bind(moment(token.expires_at))
        .bind(moment(token.revoked_at))
        .execute(self.connection())
        .await
        .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}

impl Fleet {
    pub(crate) async fn tokens(&self) -> Result<Vec<TokenRecord>, FleetError> {
        let statement = "SELECT id, actor, scope, digest, created_at, expires_at, revoked_at \
                         FROM tokens ORDER BY id";
        let rows = sqlx::query(statement).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| self.database_error(&error))?;
        rows.iter().map(|row| self.parse_token(row)).collect()
    }

    pub(crate) async fn token(&self, digest: &str) -> Result<Option<TokenRecord>, FleetError> {
        let statement = "SELECT id, actor, scope, digest, created_at, expires_at, revoked_at \
                         FROM tokens WHERE digest = $1 ORDER BY id LIMIT 1";
        let row = sqlx::query(statement).bind(digest).fetch_optional(&self.pool).await;
        row.map_err(|error| self.database_error(&error))?
            .map(|row| self.parse_token(&row))
            .transpose()
    }

    pub(crate) async fn forget_sessions(
        &self,
        before: Moment,
        most: usize,
        fence: Option<i64>,
    ) -> Result<u64, FleetError> {
        let over =
            "SELECT id FROM tokens WHERE id LIKE $1 AND expires_at < $2 ORDER BY id LIMIT $3";
        let rows = sqlx::query(over)
            .bind(format!("{SESSION_ID_PREFIX}%"))
            .bind(signed(before.millis()))
            .bind(limit(most))
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database_error(&error))?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = self.begin_fenced_write(fence).await?;
        let mut deleted = 0;
        for row in &rows {
            let id: String = row.try_get(0).map_err(|error| self.database_error(&error))?;
            // Nothing makes an expired sign-in valid again, so the row is the one that was read.
            let statement = "DELETE FROM tokens WHERE id = $1";
            let done = sqlx::query(statement).bind(id).execute(transaction.connection()).await;
            deleted += done.map_err(|error| self.database_error(&error))?.rows_affected();
        }
        transaction.commit().await?;
        Ok(deleted)
    }

    fn parse_token(&self, row: &AnyRow) -> Result<TokenRecord, FleetError> {
        let read = || -> Result<TokenRecord, Box<dyn std::error::Error>> {
            let moment = |column: usize| -> Result<Option<Moment>, sqlx::Error> {
                let millis: Option<i64> = row.try_get(column)?;
                Ok(millis.map(|millis| Moment::from_millis(millis.unsigned_abs())))
            };
            let scope: TokenScope = serde_json::from_str(&row.try_get::<String, _>(2)?)?;
            Ok(TokenRecord {
                id: row.try_get(0)?,
                actor: unescaped(row.try_get(1)?),
                scope,
                digest: row.try_get(3)?,
                created_at: moment(4)?.unwrap_or_default(),
                expires_at: moment(5)?,
                revoked_at: moment(6)?,
            })
        };
        read().map_err(|error| self.unavailable(format!("a token cannot be read: {error}")))
    }
}
